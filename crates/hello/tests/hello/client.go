// A client of Go's own TLS: `client ADDRESS NAME VERSION PROTOCOL...`. It only has to say hello.
package main

import (
	"crypto/tls"
	"os"
)

func main() {
	settings := &tls.Config{
		ServerName:         os.Args[2],
		NextProtos:         os.Args[4:],
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true,
	}
	if os.Args[3] == "1.2" {
		settings.MaxVersion = tls.VersionTLS12
	}
	if _, err := tls.Dial("tcp", os.Args[1], settings); err != nil {
		os.Exit(1)
	}
}
