// load keeps a Gateway busy and counts what goes wrong:
//
//	load serve                 the backend: HTTP on 8080, TCP on 8081, TLS on 8443
//	load run -address IP ...   the clients, until SIGTERM; then what they saw, as JSON
//
// Each answer of the backend is the address of its peer, which is the data plane that carried the bytes: so a client
// knows whose connection it was that broke. No client tries anything again.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("load: ")
	if len(os.Args) < 2 {
		log.Fatal("serve or run?")
	}
	switch os.Args[1] {
	case "serve":
		serve()
	case "run":
		run(os.Args[2:])
	default:
		log.Fatalf("there is no %q", os.Args[1])
	}
}

func run(arguments []string) {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	address := flags.String("address", "", "the Gateway's")
	host := flags.String("host", "load.example.com", "the host of requests, and the server name of TLS")
	lasting := flags.Bool("lasting", false, "with connections besides that live as long as the load")
	_ = flags.Parse(arguments)
	to := func(port string) string { return net.JoinHostPort(*address, port) }

	seen := newRecord()
	short, long := 5*time.Second, 24*time.Hour
	clients(seen, "http", 6, 20*time.Millisecond, short, httpTo(to("80"), *host, true))
	clients(seen, "http-new", 2, 20*time.Millisecond, 0, httpTo(to("80"), *host, false))
	clients(seen, "tcp", 6, 50*time.Millisecond, short, tcpTo(to("5000")))
	clients(seen, "tls", 4, 50*time.Millisecond, short, tlsTo(to("443"), *host))
	if *lasting {
		clients(seen, "http-lasting", 4, 50*time.Millisecond, long, httpTo(to("80"), *host, true))
		clients(seen, "tcp-lasting", 4, 50*time.Millisecond, long, tcpTo(to("5000")))
		clients(seen, "tls-lasting", 4, 50*time.Millisecond, long, tlsTo(to("443"), *host))
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	seen.Lock()
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		log.Fatal(err)
	}
}
