package service

import (
	"github.com/slidegate/slidegate/memstore"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy/xds"
	"github.com/slidegate/slidegate/rulings"
)

// serverTable has the metrics of the server itself.
var serverTable = []instrument.Row[*Server]{
	{Name: "slidegate.build_info", Kind: instrument.Gauge, Help: "1, labelled with what this program was built from.",
		Each: func(s *Server, report instrument.Report) {
			report(1, attribute.String("version", s.opts.Version), attribute.String("commit", s.opts.Commit), attribute.String("go", runtime.Version()))
		}},
	{Name: "slidegate.config_info", Kind: instrument.Gauge,
		Help: "1, labelled with a hash of the configuration in force, which is the same on all instances that decide alike.",
		Each: func(s *Server, report instrument.Report) { report(1, attribute.String("hash", *s.hash.Load())) }},
	{Name: "slidegate.config.last_reload_successful", Kind: instrument.Gauge, Help: "Whether the last reload of the files succeeded: 1 or 0.",
		Value: func(s *Server) int64 { return instrument.OneIf(!s.reloads.lastFailed.Load()) }},
	{Name: "slidegate.config.last_reload_success_timestamp", Unit: "s", Kind: instrument.Seconds,
		Help: "When the files were last read without an error, in seconds since 1970.",
		Each: func(s *Server, report instrument.Report) { report(float64(s.reloads.lastSuccess.Load()) / 1000) }},
	{Name: "slidegate.config.restart_needed", Kind: instrument.Gauge,
		Help:  "Whether the files have settings that only a restart puts into force: 1 or 0.",
		Value: func(s *Server) int64 { return instrument.OneIf(s.restartNeeded.Load()) }},
	{Name: "slidegate.reloads", Unit: "{reload}", Help: "Reloads of the files, by outcome.",
		Each: func(s *Server, report instrument.Report) {
			report(float64(s.reloads.ok.Load()), attribute.String("outcome", "ok"))
			report(float64(s.reloads.unchanged.Load()), attribute.String("outcome", "unchanged"))
			report(float64(s.reloads.failed.Load()), attribute.String("outcome", "failed"))
		}},
	{Name: "slidegate.certificate.expiry_timestamp", Unit: "s", Kind: instrument.Seconds,
		Help: "When the certificate in use expires, in seconds since 1970, by listener.",
		Each: func(s *Server, report instrument.Report) {
			for _, ln := range s.listeners {
				if ln.secure {
					report(float64(s.certificates.expires().Unix()), attribute.String("listener", ln.name))
				}
			}
		}},
	{Name: "slidegate.store.up", Kind: instrument.Gauge,
		Help: "Whether a charge can be written to the store, which is tried once a second: 1 or 0. While it is 0, failure modes decide.",
		Each: func(s *Server, report instrument.Report) {
			report(float64(instrument.OneIf(s.stores.Health() == nil)), attribute.String("store", s.stores.Store.Traits().Name))
		}},
	{Name: "slidegate.state.durable", Kind: instrument.Gauge,
		Help: "Whether what is decided is recorded in the folder of --state: 1 or 0. While it is 0, a crash would forget it.",
		Each: eachState(func(d memstore.Durability) float64 { return float64(instrument.OneIf(d.Err == nil)) })},
	{Name: "slidegate.state.size", Unit: "By", Kind: instrument.Gauge, Help: "Size of the folder of --state on the disk.",
		Each: eachState(func(d memstore.Durability) float64 { return float64(d.Bytes) })},
	{Name: "slidegate.state.failures", Unit: "{failure}", Help: "How often recording in the folder of --state stopped because of an error.",
		Each: eachState(func(d memstore.Durability) float64 { return float64(d.Failures) })},
	{Name: "slidegate.requests", Unit: "{request}", Help: "Responses of a listener, by status: HTTP status, gRPC code, or ok and error for RESP.",
		Each: func(s *Server, report instrument.Report) {
			for _, ln := range s.listeners {
				s.countResponses(ln, func(status string, n int64) {
					report(float64(n), attribute.String("listener", ln.name), attribute.String("status", status))
				})
			}
		}},
	{Name: "slidegate.connections", Unit: "{connection}", Kind: instrument.Gauge, Help: "Open connections of a listener.",
		Each: byListener(func(ln *listener) int64 { return ln.conns.Open() })},
	{Name: "slidegate.connections.refused", Unit: "{connection}",
		Help: "Connections closed immediately because the listener was at its limit.",
		Each: byListener(func(ln *listener) int64 { return ln.conns.Refused() })},
	{Name: "slidegate.rulings", Unit: "{ruling}", Kind: instrument.Gauge,
		Help: "Rulings in force: keys that an operator has blocked or given other limits. Those that a policy here cannot apply do not count. Absent before the first read.",
		Each: func(s *Server, report instrument.Report) {
			if list, err := s.book.List(); err == nil {
				report(float64(len(slices.DeleteFunc(list, func(r rulings.Ruling) bool { return !s.rulingApplies(&r) }))))
			}
		}},
	{Name: "slidegate.rulings.age", Unit: "s", Kind: instrument.Seconds,
		Help: "How long ago rulings were last read from the store, or how long it has been tried since the start. Above a few seconds, changes by other instances are not seen.",
		Each: func(s *Server, report instrument.Report) {
			_, readAt := s.book.State()
			if readAt.IsZero() {
				readAt = s.started
			}
			report(time.Since(readAt).Seconds())
		}},
	{Name: "slidegate.rulings.revision", Unit: "{change}", Kind: instrument.Gauge,
		Help: "Number of changes of rulings so far, the same on all instances that apply the same rulings; absent before the first read.",
		Each: func(s *Server, report instrument.Report) {
			if revision, readAt := s.book.State(); !readAt.IsZero() {
				report(float64(revision))
			}
		}},
}

// byListener reports a count of each listener.
func byListener(count func(*listener) int64) func(*Server, instrument.Report) {
	return func(s *Server, report instrument.Report) {
		for _, ln := range s.listeners {
			report(float64(count(ln)), attribute.String("listener", ln.name))
		}
	}
}

// MetricNames returns the names of the server's own metrics.
func MetricNames() []string {
	return slices.Concat(instrument.Names(serverTable), xds.MetricNames())
}

// countResponses reports how many responses a listener has sent by status, including the usual ones that it has not sent: the first
// event is then an increase.
func (s *Server) countResponses(ln *listener, report func(status string, n int64)) {
	if ln.name == "resp" {
		ok, failed := s.resp.Replies()
		report("ok", ok)
		report("error", failed)
		return
	}
	usual, text := []int{http.StatusOK}, strconv.Itoa
	switch ln.name {
	case "http":
		usual = usualHTTP
	case "proxy":
		usual = usualProxied
	case "grpc":
		usual, text = usualGRPC, func(code int) string { return codes.Code(code).String() }
	}
	for status := range ln.requests.status {
		if n := ln.requests.status[status].Load(); n > 0 || slices.Contains(usual, status) {
			report(text(status), n)
		}
	}
}

// reloads counts reloads by outcome.
type reloads struct {
	ok, unchanged, failed atomic.Int64
	lastFailed            atomic.Bool  // whether the last one failed
	lastSuccess           atomic.Int64 // time of the last success, in Unix milliseconds; the start counts
}

// record records a reload.
func (r *reloads) record(changed bool, err error) {
	switch {
	case err != nil:
		r.failed.Add(1)
	case changed:
		r.ok.Add(1)
	default:
		r.unchanged.Add(1)
	}
	r.lastFailed.Store(err != nil)
	if err == nil {
		r.lastSuccess.Store(time.Now().UnixMilli())
	}
}

// eachState returns what reports a figure of the folder of Options.State, if there is one.
func eachState(of func(memstore.Durability) float64) func(s *Server, report instrument.Report) {
	return func(s *Server, report instrument.Report) {
		if s.state == nil {
			return
		}
		d, _ := s.state.Durability()
		report(of(d))
	}
}
