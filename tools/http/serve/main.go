// Serve is what stands behind Tidegate in integration.sh: the test service of gRPC with all its ways to stream, with
// reflection, and a page over HTTP/1.1. It prints the two ports and serves until it is ended.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
)

// Longer than any window that the tests set.
var page = strings.Repeat("tide ", 4000)

func main() {
	calls, pages := listen(), listen()
	go func() {
		log.Fatal(http.Serve(pages, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, page)
		})))
	}()
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	reflection.Register(server)
	fmt.Println(calls.Addr().(*net.TCPAddr).Port, pages.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(calls))
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return listener
}
