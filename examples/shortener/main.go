// Command shortener is a small URL shortener. Clients may follow links without a limit, and create ten new
// ones per minute. It runs behind a proxy on the same machine, which names the client in X-Forwarded-For.
//
//	curl --data https://go.dev http://127.0.0.1:8090/shorten
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "address to listen on")
	base := flag.String("base", "", "base URL of short links, such as https://example.com; if empty, the address it listens on")
	window := flag.Duration("window", time.Minute, "period in which a client can create ten new links")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program immediately
	if err := run(ctx, *addr, *base, *window); err != nil {
		fmt.Fprintln(os.Stderr, "shortener:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done, and then lets active requests finish.
func run(ctx context.Context, addr, base string, window time.Duration) error {
	limits, err := newLimits(window)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	here := "http://" + listener.Addr().String()
	links := &shortener{base: cmp.Or(base, here), links: map[string]string{}}
	server := &http.Server{Handler: limits.Wrap(links.routes()), ReadTimeout: 10 * time.Second}
	fmt.Printf("listening on %s\n", here)

	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(grace)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// newLimits returns the middleware. Only proxies on this machine are trusted to name the client; any other
// peer is limited by its own address, whatever its headers say.
func newLimits(window time.Duration) (*httplimit.Middleware, error) {
	limiter, err := slidegate.New(memstore.NewDefault(), slidegate.Limit{Quota: 10, Window: window})
	if err != nil {
		return nil, err
	}
	proxies, err := clientip.ParseProxies("loopback")
	if err != nil {
		return nil, err
	}
	client, err := clientip.New(clientip.Options{Trusted: proxies, Header: "X-Forwarded-For"})
	if err != nil {
		return nil, err
	}
	return httplimit.New(limiter, httplimit.Options{
		Policies: []httplimit.Policy{{Name: "shorten", Match: "POST /shorten", Key: httplimit.ByAddress(client)}},
	})
}

// shortener keeps the links in memory: they are lost when the program ends.
type shortener struct {
	base  string // base URL of short links
	mu    sync.RWMutex
	links map[string]string // URLs by code
}

func (s *shortener) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /shorten", s.shorten)
	mux.HandleFunc("GET /{code}", s.follow)
	return mux
}

// shorten creates a link to the URL in the body. An invalid URL counts too; otherwise probing for valid ones
// would be free.
func (s *shortener) shorten(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2048))
	if err != nil {
		http.Error(w, "the URL is too long", http.StatusRequestEntityTooLarge)
		return
	}
	target, err := url.Parse(string(body))
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		http.Error(w, "the body must be a URL that begins with http:// or https://", http.StatusBadRequest)
		return
	}
	code := rand.Text()[:12] // 60 random bits: practically unique, and impossible to guess
	s.mu.Lock()
	s.links[code] = target.String()
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s/%s\n", s.base, code)
}

// follow redirects the client to the target of a link.
func (s *shortener) follow(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	target, ok := s.links[r.PathValue("code")]
	s.mu.RUnlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.Redirect(w, r, target, http.StatusFound)
}
