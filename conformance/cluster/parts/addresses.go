package main

import (
	"context"
	"flag"
	"log"
	"net/netip"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// giveAddresses stands in for a cloud: each Service of type LoadBalancer gets an address of a pool in its status, and
// kube-proxy does the rest. An address asked for by spec.loadBalancerIP is given when it is free and in the pool; a
// Service that asks for another one stays without, as it would in a cloud.
func giveAddresses() {
	config := flag.String("kubeconfig", "", "how to reach the API server")
	prefix := flag.String("pool", "", "the addresses to give, as a prefix")
	flag.Parse()
	rest, err := clientcmd.BuildConfigFromFlags("", *config)
	if err != nil {
		log.Fatal(err)
	}
	pool := pool{
		client: kubernetes.NewForConfigOrDie(rest),
		prefix: netip.MustParsePrefix(*prefix),
		given:  map[types.UID]netip.Addr{},
		taken:  map[netip.Addr]types.UID{},
	}
	// Handlers of one informer are called one after another: the pool needs no lock.
	factory := informers.NewSharedInformerFactory(pool.client, 0)
	_, err = factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { pool.see(object.(*core.Service)) },
		UpdateFunc: func(_, object any) { pool.see(object.(*core.Service)) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if service, ok := object.(*core.Service); ok {
				pool.free(service.UID)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(context.Background().Done())
	select {}
}

type pool struct {
	client *kubernetes.Clientset
	prefix netip.Prefix
	given  map[types.UID]netip.Addr
	taken  map[netip.Addr]types.UID
	// Services that asked for an address which was not free.
	waiting []*core.Service
}

// see looks at a Service that is new or changed.
func (p *pool) see(service *core.Service) {
	if service.Spec.Type != core.ServiceTypeLoadBalancer {
		p.free(service.UID)
		return
	}
	asked := service.Spec.LoadBalancerIP
	if has, ok := p.given[service.UID]; ok {
		if asked == "" || asked == has.String() {
			p.tell(service, has)
			return
		}
		p.free(service.UID)
	}
	// After a start, what the status says was given before.
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if has, err := netip.ParseAddr(ingress.IP); err == nil && (asked == "" || asked == ingress.IP) && p.take(service, has) {
			return
		}
	}
	if asked == "" {
		for next := p.prefix.Addr().Next(); p.prefix.Contains(next); next = next.Next() {
			if p.take(service, next) {
				return
			}
		}
	} else if wanted, err := netip.ParseAddr(asked); err == nil && p.take(service, wanted) {
		return
	}
	log.Printf("%s/%s: no address (asked for %q)", service.Namespace, service.Name, asked)
	p.waiting = append(p.waiting, service)
	p.write(service, nil)
}

func (p *pool) take(service *core.Service, address netip.Addr) bool {
	if _, taken := p.taken[address]; taken || !p.prefix.Contains(address) {
		return false
	}
	p.taken[address], p.given[service.UID] = service.UID, address
	p.tell(service, address)
	return true
}

// free gives back what a Service had, and those that waited get another try.
func (p *pool) free(gone types.UID) {
	address, had := p.given[gone]
	if !had {
		return
	}
	delete(p.given, gone)
	delete(p.taken, address)
	waiting := p.waiting
	p.waiting = nil
	for _, service := range waiting {
		if current, err := p.client.CoreV1().Services(service.Namespace).Get(context.Background(), service.Name, meta.GetOptions{}); err == nil {
			p.see(current)
		}
	}
}

// tell puts the address into the status, unless it is there.
func (p *pool) tell(service *core.Service, address netip.Addr) {
	ingress := service.Status.LoadBalancer.Ingress
	if len(ingress) != 1 || ingress[0].IP != address.String() {
		p.write(service, []core.LoadBalancerIngress{{IP: address.String()}})
	}
}

func (p *pool) write(service *core.Service, ingress []core.LoadBalancerIngress) {
	if len(ingress) == 0 && len(service.Status.LoadBalancer.Ingress) == 0 {
		return
	}
	changed := service.DeepCopy()
	changed.Status.LoadBalancer.Ingress = ingress
	// A conflict means that the Service changed since: it will be seen again.
	if _, err := p.client.CoreV1().Services(service.Namespace).UpdateStatus(context.Background(), changed, meta.UpdateOptions{}); err != nil {
		log.Printf("%s/%s: %v", service.Namespace, service.Name, err)
	}
}
