// Spec runs h2spec against a server and holds what failed against a file of exceptions, each with the reason why it is
// one. What fails and is not there is an error, and so is what is there and does not fail.
//
//	spec ADDRESS PATH EXCEPTIONS [tls]
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

func main() {
	if len(os.Args) != 4 && (len(os.Args) != 5 || os.Args[4] != "tls") {
		log.Fatal("usage: spec ADDRESS PATH EXCEPTIONS [tls]")
	}
	host, port, err := net.SplitHostPort(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		log.Fatal(err)
	}
	tls := len(os.Args) == 5
	c := &config.Config{Host: host, Port: number, Path: os.Args[2], Timeout: 5 * time.Second,
		MaxHeaderLen: 4000, TLS: tls, Insecure: true, Strict: true}
	transport := "plain"
	if tls {
		transport = "tls"
	}
	exceptions, err := read(os.Args[3], transport)
	if err != nil {
		log.Fatal(err)
	}

	passed, wrong := 0, 0
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		group.Test(c)
		if group.SkippedCount > 0 {
			fmt.Printf("%s: %d skipped\n", group.Key, group.SkippedCount)
			wrong += group.SkippedCount
		}
		each(group, func(test *spec.TestCase) {
			id := fmt.Sprintf("%s/%d", test.Parent.ID(), test.Result.Sequence)
			reason, excepted := exceptions[id]
			switch {
			case test.Result.Failed && !excepted:
				fmt.Printf("FAILED %s %s: %v\n", id, test.Desc, test.Result.Error)
				wrong++
			case !test.Result.Failed && excepted:
				fmt.Printf("PASSED %s, which the exceptions have as: %s\n", id, reason)
				wrong++
			case excepted:
				fmt.Printf("excepted %s %s: %s\n", id, test.Desc, reason)
			default:
				passed++
			}
			delete(exceptions, id)
		})
	}
	for id := range exceptions {
		fmt.Printf("no such test: %s\n", id)
		wrong++
	}
	fmt.Printf("%d passed, %d failed\n", passed, wrong)
	if wrong > 0 || passed == 0 {
		os.Exit(1)
	}
}

func each(group *spec.TestGroup, look func(*spec.TestCase)) {
	for _, test := range append(group.Tests, group.StrictTests...) {
		if test.Result != nil {
			look(test)
		}
	}
	for _, inner := range group.Groups {
		each(inner, look)
	}
}

// Read takes lines of a test's id, `tls`, `plain` or `both`, and a reason; empty ones and those with # are for people.
func read(file, transport string) (map[string]string, error) {
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	exceptions := map[string]string{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 || !strings.Contains("tls plain both", words[1]) {
			return nil, fmt.Errorf("%s: write an id, tls, plain or both, and a reason: %s", file, line)
		}
		if words[1] == transport || words[1] == "both" {
			exceptions[words[0]] = words[2]
		}
	}
	return exceptions, lines.Err()
}
