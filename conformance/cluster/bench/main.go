// bench measures Tidegate in the cluster that is up: how long a route takes from its creation to its first answer,
// with few and with many others, what the controller costs meanwhile, and how long a new Gateway takes.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

const namespace = "bench"

func main() {
	config := flag.String("kubeconfig", "", "how to reach the API server")
	audit := flag.String("audit", "", "the API server's audit log")
	image := flag.String("image", "", "the image of the backend")
	samples := flag.Int("samples", 500, "routes to measure at each level")
	flag.Parse()
	if *samples < 1 {
		log.Fatal("-samples: at least one")
	}
	rest, err := clientcmd.BuildConfigFromFlags("", *config)
	must(err)
	rest.QPS, rest.Burst = -1, -1
	bench := &bench{audit: *audit, samples: *samples}
	bench.client, err = client.New(rest, client.Options{})
	must(err)
	must(gateway.Install(bench.client.Scheme()))

	bench.create(&core.Namespace{ObjectMeta: meta.ObjectMeta{Name: namespace}})
	bench.backend(*image)
	bench.gateway("edge")
	address := bench.address("edge")
	bench.route("first", "edge", "echo")
	bench.served(address, "first")

	fmt.Println("routes  endpoints  route served p50  p90     p99     max     controller RSS  CPU a change  API requests a change")
	routes, endpoints := 1, 1
	for _, level := range []struct{ routes, endpoints int }{{10, 1}, {1000, 1}, {5000, 1}, {5000, 20000}} {
		endpoints = bench.endpoints(endpoints, level.endpoints)
		routes = bench.fill(routes, level.routes)
		bench.route(fmt.Sprintf("settled-%d", bench.made), "edge", "echo")
		bench.served(address, fmt.Sprintf("settled-%d", bench.made-1))
		bench.level(address, routes, endpoints)
	}
	bench.newGateways()
}

type bench struct {
	client  client.Client
	audit   string
	samples int
	// How many routes were made, so that each has a name of its own.
	made int
}

// level measures routes that come one after another while `routes` others are there.
func (b *bench) level(address string, routes, endpoints int) {
	before := controller()
	asked := requests(b.audit)
	var times []time.Duration
	for range b.samples {
		name := fmt.Sprintf("sample-%d", b.made)
		begun := time.Now()
		b.route(name, "edge", "echo")
		b.served(address, name)
		times = append(times, time.Since(begun))
	}
	// Statuses of the last ones are written a little later than they are served.
	b.settle()
	after := controller()
	changes := float64(b.samples)
	slices.Sort(times)
	fmt.Printf("%6d  %9d  %16s  %6s  %6s  %6s  %11d MiB  %9.1f ms  %21.1f\n", routes, endpoints,
		at(times, 50), at(times, 90), at(times, 99), at(times, 100), after.resident>>20,
		float64((after.cpu-before.cpu).Microseconds())/1000/changes, float64(requests(b.audit)-asked)/changes)
}

// at is the time that so many percent of the sorted times stay within; of too few there is none that says so of the
// rest, and it would be another name for the maximum.
func at(times []time.Duration, percent int) string {
	rank := (percent*len(times) + 99) / 100
	if percent < 100 && rank == len(times) {
		return "-"
	}
	return times[rank-1].Round(100 * time.Microsecond).String()
}

// served waits for the first answer of a route's backend.
func (b *bench) served(address, name string) {
	// A connection for each request, as a new client would have.
	transport := &http.Transport{DisableKeepAlives: true}
	asking := http.Client{Transport: transport, Timeout: 2 * time.Second}
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		request, err := http.NewRequest(http.MethodGet, "http://"+net.JoinHostPort(address, "80"), nil)
		must(err)
		request.Host = name + ".example.com"
		if answer, err := asking.Do(request); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
	log.Fatalf("%s is not served after a minute", name)
}

// newGateways measures from the creation of a Gateway with a route to its first answer: an address, a Pod, a plan.
func (b *bench) newGateways() {
	var times []time.Duration
	for number := range 5 {
		name := fmt.Sprintf("new-%d", number)
		begun := time.Now()
		b.gateway(name)
		b.route(name, name, "echo")
		b.served(b.address(name), name)
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	fmt.Printf("a new Gateway, from its creation to the first byte of an answer: %s to %s, median %s\n",
		times[0].Round(time.Millisecond), times[4].Round(time.Millisecond), times[2].Round(time.Millisecond))
}

// settle waits until every route has the status that belongs to its generation.
func (b *bench) settle() {
	for range 600 {
		var routes gateway.HTTPRouteList
		must(b.client.List(context.Background(), &routes, client.InNamespace(namespace)))
		waiting := 0
		for _, route := range routes.Items {
			if len(route.Status.Parents) == 0 {
				waiting++
			}
		}
		if waiting == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	log.Fatal("routes are without a status after a minute")
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
