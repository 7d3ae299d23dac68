package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// patience is how long a connect or an answer may take.
const patience = 3 * time.Second

// mostFailures are kept; all are counted.
const mostFailures = 20000

// An exchange is one question and its answer on a connection that is there already: who carried it, and whether the
// connection may be used again.
type exchange func() (carrier string, again bool, err error)

// A dial makes a connection, and what is done on it.
type dial func() (net.Conn, exchange, error)

// clients of one kind: each has a connection for `life`, and asks something on it every `pause`.
func clients(seen *record, kind string, count int, pause, life time.Duration, connect dial) {
	counts := &counts{}
	seen.Kinds[kind] = counts
	for range count {
		go func() {
			// Not all at once, for ever.
			time.Sleep(time.Duration(rand.Int64N(int64(pause) + 1)))
			for {
				connection(seen, kind, counts, pause, life, connect)
				time.Sleep(pause)
			}
		}()
	}
}

func connection(seen *record, kind string, counts *counts, pause, life time.Duration, connect dial) {
	begun := time.Now()
	socket, ask, err := connect()
	if err != nil {
		seen.failed(counts, failure{Kind: kind, Phase: "connect", Error: err.Error()})
		return
	}
	defer socket.Close()
	seen.connected(counts)
	// Lives differ, so that connections do not all end together.
	until := begun.Add(life/2 + time.Duration(rand.Int64N(int64(life/2)+1)))
	carrier, phase := "", "first"
	for {
		asked := time.Now()
		_ = socket.SetDeadline(asked.Add(patience))
		by, again, err := ask()
		if err != nil {
			seen.failed(counts, failure{Kind: kind, Phase: phase, Carrier: carrier, Error: err.Error()})
			return
		}
		seen.answered(counts, time.Since(asked))
		carrier, phase = by, "later"
		if !again || time.Now().After(until) {
			return
		}
		time.Sleep(pause)
	}
}

func httpTo(address, host string, keep bool) dial {
	request := "GET / HTTP/1.1\r\nHost: " + host + "\r\n"
	if !keep {
		request += "Connection: close\r\n"
	}
	request += "\r\n"
	return func() (net.Conn, exchange, error) {
		socket, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			return nil, nil, err
		}
		reader := bufio.NewReader(socket)
		return socket, func() (string, bool, error) {
			if _, err := io.WriteString(socket, request); err != nil {
				return "", false, err
			}
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				return "", false, err
			}
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return "", false, err
			}
			if response.StatusCode != http.StatusOK {
				return "", false, fmt.Errorf("answered %d", response.StatusCode)
			}
			return string(body), keep && !response.Close, nil
		}, nil
	}
}

func tcpTo(address string) dial {
	return func() (net.Conn, exchange, error) {
		socket, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			return nil, nil, err
		}
		return socket, line(socket), nil
	}
}

func tlsTo(address, name string) dial {
	// Certificates are the backend's own, and not what is looked at here.
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true}
	return func() (net.Conn, exchange, error) {
		socket, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			return nil, nil, err
		}
		secured := tls.Client(socket, config)
		return secured, line(secured), nil
	}
}

func line(socket net.Conn) exchange {
	reader := bufio.NewReader(socket)
	return func() (string, bool, error) {
		if _, err := io.WriteString(socket, "who\n"); err != nil {
			return "", false, err
		}
		answer, err := reader.ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return strings.TrimSpace(answer), true, err
	}
}

type counts struct {
	Connections  int   `json:"connections"`
	Exchanges    int   `json:"exchanges"`
	Failures     int   `json:"failures"`
	SlowestMilli int64 `json:"slowestMilliseconds"`
}

type failure struct {
	// Seconds since 1970.
	At   float64 `json:"at"`
	Kind string  `json:"kind"`
	// connect, first (nothing was answered yet), later.
	Phase string `json:"phase"`
	// The data plane that carried the connection, where an answer told.
	Carrier string `json:"carrier"`
	Error   string `json:"error"`
}

type record struct {
	sync.Mutex `json:"-"`
	Kinds      map[string]*counts `json:"kinds"`
	Failures   []failure          `json:"failures"`
}

func newRecord() *record {
	return &record{Kinds: map[string]*counts{}, Failures: []failure{}}
}

func (r *record) connected(counts *counts) {
	r.Lock()
	defer r.Unlock()
	counts.Connections++
}

func (r *record) answered(counts *counts, took time.Duration) {
	r.Lock()
	defer r.Unlock()
	counts.Exchanges++
	counts.SlowestMilli = max(counts.SlowestMilli, took.Milliseconds())
}

func (r *record) failed(counts *counts, failure failure) {
	r.Lock()
	defer r.Unlock()
	counts.Failures++
	failure.At = float64(time.Now().UnixMilli()) / 1000
	if len(r.Failures) < mostFailures {
		r.Failures = append(r.Failures, failure)
	}
}
