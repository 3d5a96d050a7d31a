// A process of a group that says what it was given, and fails when it is asked to.
//
//	member serve [arguments …]   prints what it was given as one line of JSON, and answers on port 8080:
//	    GET  /                   the same JSON
//	    GET  /healthz            200, or 500 after /sicken and in its first $MEMBER_WARMUP seconds
//	    GET  /resolve?name=N     the addresses of N, as JSON; 502 where there are none
//	    POST /exit?code=N        ends with N
//	    POST /sicken             its health is bad from now on
//	    POST /devour             takes memory until it is killed
//	    POST /fill?megabytes=N   writes so much into its own file system
//	member exit N                ends with N at once
//
// SIGTERM ends it with 0, after $MEMBER_GRACE seconds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	resolveTimeout = 5 * time.Second
	resolveAgain   = 200 * time.Millisecond
	// A leader has no address before its pod has one, and a name server learns it a moment later.
	leaderTimeout = 2 * time.Minute
)

type given struct {
	Arguments   []string            `json:"arguments"`
	Environment []string            `json:"environment"`
	Hostname    string              `json:"hostname"`
	Resolved    map[string][]string `json:"resolved"`
}

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: member serve [arguments] | member exit N"))
	}
	switch os.Args[1] {
	case "exit":
		os.Exit(number(os.Args[2]))
	case "serve":
		fail(serve(observe(os.Args[2:])))
	default:
		fail(fmt.Errorf("%s: expected serve or exit", os.Args[1]))
	}
}

// Asked before this pod can be ready, and until there is an answer: engines do so too.
func observe(arguments []string) given {
	hostname, err := os.Hostname()
	if err != nil {
		fail(err)
	}
	seen := given{arguments, os.Environ(), hostname, map[string][]string{}}
	if leader := os.Getenv("LWS_LEADER_ADDRESS"); leader != "" {
		seen.Resolved[leader] = resolveInTime(leader)
	}
	return seen
}

func resolveInTime(name string) []string {
	deadline := time.Now().Add(leaderTimeout)
	for {
		if addresses := resolve(name); len(addresses) > 0 || time.Now().After(deadline) {
			return addresses
		}
		time.Sleep(resolveAgain)
	}
}

func resolve(name string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return []string{}
	}
	sort.Strings(addresses)
	return addresses
}

func serve(seen given) error {
	text, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	go endWhenTold()
	var sick atomic.Bool
	warm := time.Now().Add(time.Duration(number(os.Getenv("MEMBER_WARMUP"))) * time.Second)
	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() || time.Now().Before(warm) {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	http.HandleFunc("GET /resolve", func(w http.ResponseWriter, r *http.Request) {
		addresses := resolve(r.URL.Query().Get("name"))
		if len(addresses) == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
		_ = json.NewEncoder(w).Encode(addresses)
	})
	http.HandleFunc("POST /sicken", func(http.ResponseWriter, *http.Request) { sick.Store(true) })
	http.HandleFunc("POST /exit", func(_ http.ResponseWriter, r *http.Request) { os.Exit(number(r.URL.Query().Get("code"))) })
	http.HandleFunc("POST /devour", func(http.ResponseWriter, *http.Request) { devour() })
	http.HandleFunc("POST /fill", func(w http.ResponseWriter, r *http.Request) {
		if err := fill("/filled", number(r.URL.Query().Get("megabytes"))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	port := os.Getenv("MEMBER_PORT")
	if port == "" {
		port = "8080"
	}
	return http.ListenAndServe(":"+port, nil)
}

func devour() {
	const step = 8 << 20
	var held [][]byte
	for {
		block := make([]byte, step)
		for i := 0; i < step; i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
	}
}

func fill(path string, megabytes int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for block := make([]byte, 1<<20); megabytes > 0; megabytes-- {
		if _, err := file.Write(block); err != nil {
			return err
		}
	}
	return file.Sync()
}

func endWhenTold() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	<-told
	fmt.Println("SIGTERM")
	time.Sleep(time.Duration(number(os.Getenv("MEMBER_GRACE"))) * time.Second)
	fmt.Println("ended in its own time")
	os.Exit(0)
}

func number(text string) int {
	if text == "" {
		return 0
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		fail(err)
	}
	return value
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
