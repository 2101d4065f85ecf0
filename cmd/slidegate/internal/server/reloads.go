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

	"github.com/slidegate/slidegate/config"
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

// hashConfig returns a short hash of the configuration in force: of the policies and settings, and of the texts of rules for Envoy. It is
// the same on all instances that decide alike, however their files are written. It does not cover tokens, certificates and secrets.
func hashConfig(file *config.File, rules []byte) string {
	sum := sha256.New()
	sum.Write(config.Format(file))
	sum.Write(rules)
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// ruleTexts returns the contents of the files of rules.
func ruleTexts(paths []string) (all []byte) {
	files, _ := yamlfile.Files(paths...)
	for _, path := range files {
		text, _ := os.ReadFile(path) // errors are reported by loading it
		all = append(fmt.Appendln(all, len(text)), text...)
	}
	return all
}
