package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/config/yamlfile"
)

// reloads counts reloads by outcome.
type reloads struct {
	ok, unchanged, failed atomic.Int64
	lastFailed            atomic.Bool  // whether the last one failed
	lastSuccess           atomic.Int64 // time of the last success, in Unix milliseconds
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

func newReloads(meters metric.MeterProvider) (*reloads, error) {
	r := &reloads{}
	r.lastSuccess.Store(time.Now().UnixMilli()) // the start counts as the first success
	meter := meters.Meter(scope)
	outcome := func(name string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String("outcome", name))
	}
	_, err := meter.Int64ObservableCounter("slidegate.reloads", metric.WithUnit("{reload}"),
		metric.WithDescription("Reloads of the files, by outcome."),
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			to.Observe(r.ok.Load(), outcome("ok"))
			to.Observe(r.unchanged.Load(), outcome("unchanged"))
			to.Observe(r.failed.Load(), outcome("failed"))
			return nil
		}))
	return r, err
}

// hashFiles returns a short hash of the contents of the files. It is the same on all instances with the same files, wherever the
// files are. Without files, it hashes the flags. It does not cover tokens, certificates and the values of variables.
func (s *Server) hashFiles() string {
	sum := sha256.New()
	paths, _ := yamlfile.Files(s.opts.Paths...)
	if len(s.opts.Paths) == 0 {
		for i := range s.opts.File.Policies {
			fmt.Fprintln(sum, s.opts.File.Policies[i].Name, s.opts.File.Policies[i].Limits, s.opts.File.Service.Failure)
		}
	}
	rules, _ := yamlfile.Files(s.opts.Envoy...)
	for _, path := range append(paths, rules...) {
		text, _ := os.ReadFile(path) // errors are reported by loading it
		fmt.Fprintln(sum, len(text))
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}
