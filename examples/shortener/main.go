// Command shortener is a small URL shortener. Everybody may follow links as often as they like, and make ten new ones a
// minute. It stands behind a proxy on the same machine, which says in X-Forwarded-For who the client is.
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
	addr := flag.String("addr", "127.0.0.1:8090", "where to listen")
	base := flag.String("base", "", "what short links begin with, such as https://example.com; where it listens if empty")
	window := flag.Duration("window", time.Minute, "how long ten new links are the most that a client can make")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, *addr, *base, *window); err != nil {
		fmt.Fprintln(os.Stderr, "shortener:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done, and then lets the requests finish that have begun.
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

// newLimits returns the middleware. Only what comes from this machine is believed about who the client is; whoever else
// can reach the server is limited by their own address, whatever their headers say.
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

// shortener keeps the links, in memory: they are gone when it ends.
type shortener struct {
	base  string // what short links begin with
	mu    sync.RWMutex
	links map[string]string // from codes to URLs
}

func (s *shortener) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /shorten", s.shorten)
	mux.HandleFunc("GET /{code}", s.follow)
	return mux
}

// shorten makes a link of the URL that is the body. One that is refused here has been counted all the same, or else trying
// out what is a URL would be free.
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
	code := rand.Text()[:12] // 60 random bits: nobody guesses one, and no two are the same
	s.mu.Lock()
	s.links[code] = target.String()
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s/%s\n", s.base, code)
}

// follow sends the client to where a link leads.
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
