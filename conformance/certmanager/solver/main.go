// What cert-manager puts into a Pod to answer an HTTP-01 challenge: its module has the server, and not the program.
package main

import (
	"flag"
	"log"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

func main() {
	var server solver.HTTP01Solver
	flag.IntVar(&server.ListenPort, "listen-port", 8089, "where to listen")
	flag.StringVar(&server.Domain, "domain", "", "the name that is proved")
	flag.StringVar(&server.Token, "token", "", "the challenge")
	flag.StringVar(&server.Key, "key", "", "the answer")
	flag.Parse()
	logf.InitLogs()
	log.Fatal(server.Listen(logf.Log))
}
