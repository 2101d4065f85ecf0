//go:build unix

package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// BenchmarkProxy compares the application alone, behind the standard library's reverse proxy, and behind this proxy, over persistent
// loopback connections. It reports the times that clients see, and the total processor time, including clients and application, in
// microseconds.
func BenchmarkProxy(b *testing.B) {
	to := application(b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello\n") })
	target := parse(b, to)
	standard := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: standard}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() {
		server.Close()
		standard.Transport.(*http.Transport).CloseIdleConnections()
	})
	r := newRig(b, to, unlimitedSettings())
	r.clock.Set(rule.Micros(time.Now().UnixMicro()))
	for _, c := range []struct{ name, at string }{
		{"application alone", to}, {"standard library", "http://" + listener.Addr().String()}, {"this", "http://" + r.at},
	} {
		b.Run(c.name, func(b *testing.B) { load(b, c.at, 8) })
	}
}

// load sends requests over a number of connections, each after the response to the previous one.
func load(b *testing.B, at string, clients int) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	took := make([][]time.Duration, clients)
	var all sync.WaitGroup
	b.ResetTimer()
	before := processorTime()
	for i := range clients {
		all.Go(func() {
			for range b.N/clients + 1 {
				start := time.Now()
				request, _ := http.NewRequest(http.MethodGet, at, nil)
				got, err := transport.RoundTrip(request)
				if err != nil || got.StatusCode != 200 {
					b.Errorf("got %v, %v, want status 200", got, err)
					return
				}
				_, _ = io.Copy(io.Discard, got.Body)
				got.Body.Close()
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	spent := processorTime() - before
	times := slices.Concat(took...)
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-us")
	b.ReportMetric(float64(spent.Nanoseconds())/1e3/float64(len(times)), "cpu-us")
	b.ReportMetric(float64(len(times))/b.Elapsed().Seconds(), "requests/s")
}

// processorTime returns the processor time used by this process.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // cannot fail for this process
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
