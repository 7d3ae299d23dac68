// Calls has gRPC's own client make its interoperability calls through Tidegate: unary and streaming both ways, empty
// and large, cancelled and too late, with metadata, statuses and what nobody implements. It ends at the first that
// fails.
//
//	calls ADDRESS [CA NAME]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// For each of them.
const patience = 30 * time.Second

type call struct {
	name string
	make func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)
}

var calls = []call{
	{"empty_unary", interop.DoEmptyUnaryCall},
	{"large_unary", interop.DoLargeUnaryCall},
	{"client_streaming", interop.DoClientStreaming},
	{"server_streaming", interop.DoServerStreaming},
	{"ping_pong", interop.DoPingPong},
	{"empty_stream", interop.DoEmptyStream},
	{"timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer},
	{"cancel_after_begin", interop.DoCancelAfterBegin},
	{"cancel_after_first_response", interop.DoCancelAfterFirstResponse},
	{"status_code_and_message", interop.DoStatusCodeAndMessage},
	{"special_status_message", interop.DoSpecialStatusMessage},
	{"custom_metadata", interop.DoCustomMetadata},
	{"unimplemented_method", func(ctx context.Context, _ testgrpc.TestServiceClient, _ ...grpc.CallOption) {
		interop.DoUnimplementedMethod(ctx, connection)
	}},
}

var connection *grpc.ClientConn

func main() {
	if len(os.Args) != 2 && len(os.Args) != 4 {
		log.Fatal("usage: calls ADDRESS [CA NAME]")
	}
	transport := insecure.NewCredentials()
	if len(os.Args) == 4 {
		var err error
		if transport, err = credentials.NewClientTLSFromFile(os.Args[2], os.Args[3]); err != nil {
			log.Fatal(err)
		}
	}
	var err error
	connection, err = grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(transport))
	if err != nil {
		log.Fatal(err)
	}
	client := testgrpc.NewTestServiceClient(connection)
	for _, call := range calls {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		call.make(ctx, client)
		cancel()
		fmt.Println("passed:", call.name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(connection))
	fmt.Println("passed: unimplemented_service")
	fmt.Printf("%d passed, 0 failed\n", len(calls)+1)
}
