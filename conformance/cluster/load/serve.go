package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

func serve() {
	go lines(listen(":8081"))
	go lines(tls.NewListener(listen(":8443"), &tls.Config{Certificates: []tls.Certificate{certificate()}}))
	log.Fatal(http.Serve(listen(":8080"), http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		_, _ = io.WriteString(response, peer(request.RemoteAddr))
	})))
}

func listen(address string) net.Listener {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

// lines answers each line with one.
func lines(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer connection.Close()
			answer := peer(connection.RemoteAddr().String()) + "\n"
			asked := bufio.NewScanner(connection)
			for asked.Scan() {
				if _, err := io.WriteString(connection, answer); err != nil {
					return
				}
			}
		}()
	}
}

func peer(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		log.Fatal(err)
	}
	return host
}

// certificate is one that nobody verifies: TLS is passed through, and what counts is that it arrives.
func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
