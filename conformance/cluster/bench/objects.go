package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// At once, where many objects are made.
const writers = 8

func (b *bench) create(object client.Object) {
	if err := b.client.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		log.Fatal(err)
	}
}

// backend is one that answers, and waits until it does.
func (b *bench) backend(image string) {
	labels := map[string]string{"app": "echo"}
	b.create(&core.Service{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: "echo"},
		Spec:       core.ServiceSpec{Selector: labels, Ports: []core.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(3000)}}},
	})
	environment := []core.EnvVar{
		{Name: "POD_NAME", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "NAMESPACE", Value: namespace},
	}
	b.create(&apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: "echo"},
		Spec: apps.DeploymentSpec{
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: labels},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "echo", Image: image, Env: environment}}},
			},
		},
	})
}

func (b *bench) gateway(name string) {
	b.create(&gateway.Gateway{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
		Spec: gateway.GatewaySpec{
			GatewayClassName: "tidegate",
			Listeners:        []gateway.Listener{{Name: "http", Port: 80, Protocol: gateway.HTTPProtocolType}},
		},
	})
}

func (b *bench) address(name string) string {
	for range 6000 {
		var found gateway.Gateway
		must(b.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, &found))
		if len(found.Status.Addresses) > 0 {
			return found.Status.Addresses[0].Value
		}
		time.Sleep(10 * time.Millisecond)
	}
	log.Fatalf("Gateway %s has no address after a minute", name)
	return ""
}

// route makes a route for a name of its own.
func (b *bench) route(name, parent, service string) {
	b.made++
	b.makeRoute(name, parent, service)
}

func (b *bench) makeRoute(name, parent, service string) {
	b.create(&gateway.HTTPRoute{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
		Spec: gateway.HTTPRouteSpec{
			CommonRouteSpec: gateway.CommonRouteSpec{ParentRefs: []gateway.ParentReference{{Name: gateway.ObjectName(parent)}}},
			Hostnames:       []gateway.Hostname{gateway.Hostname(name + ".example.com")},
			Rules: []gateway.HTTPRouteRule{{BackendRefs: []gateway.HTTPBackendRef{{BackendRef: gateway.BackendRef{
				BackendObjectReference: gateway.BackendObjectReference{Name: gateway.ObjectName(service), Port: ptr.To[gateway.PortNumber](80)},
			}}}}},
		},
	})
}

// fill makes routes until there are so many.
func (b *bench) fill(there, wanted int) int {
	each(there, wanted, func(number int) {
		b.makeRoute(fmt.Sprintf("filling-%d", number), "edge", fmt.Sprintf("many-%d", number%services))
	})
	b.settle()
	return max(there, wanted)
}

// Services that the many endpoints belong to.
const services = 200

// endpoints makes Services with endpoints that nobody asks for, until there are so many.
func (b *bench) endpoints(there, wanted int) int {
	of := wanted / services
	each(0, services, func(number int) {
		name := fmt.Sprintf("many-%d", number)
		b.create(&core.Service{
			ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       core.ServiceSpec{Ports: []core.ServicePort{{Port: 80}}},
		})
		if of == 0 {
			return
		}
		var addresses []discovery.Endpoint
		for endpoint := range of {
			addresses = append(addresses, discovery.Endpoint{
				Addresses:  []string{fmt.Sprintf("198.18.%d.%d", number, endpoint+1)},
				Conditions: discovery.EndpointConditions{Ready: ptr.To(true)},
			})
		}
		b.create(&discovery.EndpointSlice{
			ObjectMeta:  meta.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discovery.LabelServiceName: name}},
			AddressType: discovery.AddressTypeIPv4,
			Endpoints:   addresses,
			Ports:       []discovery.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](80), Protocol: ptr.To(core.ProtocolTCP)}},
		})
	})
	return max(there, wanted)
}

// each calls for every number from `from` up to `to`, several at once.
func each(from, to int, call func(int)) {
	numbers := make(chan int)
	var waiting sync.WaitGroup
	for range writers {
		waiting.Go(func() {
			for number := range numbers {
				call(number)
			}
		})
	}
	for number := from; number < to; number++ {
		numbers <- number
	}
	close(numbers)
	waiting.Wait()
}
