package server

import (
	"context"
	"runtime"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope is the instrumentation scope of the server's own metrics.
const scope = "github.com/slidegate/slidegate/cmd/slidegate/internal/server"

// watchVitals reports the build, the configuration in force, whether the store answers, and how old the state file is.
func (s *Server) watchVitals() error {
	v := vitals{meter: s.telemetry.meters.Meter(scope)}
	v.gauge("slidegate.build_info", "", "1, labelled with what this program was built from.", func(to metric.Float64Observer) {
		to.Observe(1, metric.WithAttributes(attribute.String("version", s.opts.Version),
			attribute.String("commit", s.opts.Commit), attribute.String("go", runtime.Version())))
	})
	v.gauge("slidegate.config_info", "", "1, labelled with a hash of the configuration in force, which is the same on all instances that decide alike.", func(to metric.Float64Observer) {
		to.Observe(1, metric.WithAttributes(attribute.String("hash", *s.hash.Load())))
	})
	v.gauge("slidegate.config.last_reload_successful", "", "Whether the last reload of the files succeeded: 1 or 0.", func(to metric.Float64Observer) {
		to.Observe(oneIf(!s.reloads.lastFailed.Load()))
	})
	v.gauge("slidegate.config.last_reload_success_timestamp", "s", "When the files were last read without an error, in seconds since 1970.", func(to metric.Float64Observer) {
		to.Observe(float64(s.reloads.lastSuccess.Load()) / 1000)
	})
	v.gauge("slidegate.config.restart_needed", "", "Whether the files have settings that only a restart puts into force: 1 or 0.", func(to metric.Float64Observer) {
		to.Observe(oneIf(s.restartNeeded.Load()))
	})
	if s.certificates != nil {
		v.gauge("slidegate.certificate.expiry_timestamp", "s", "When the certificate in use expires, in seconds since 1970, by listener.", func(to metric.Float64Observer) {
			for _, name := range s.secureListeners() {
				to.Observe(float64(s.certificates.expires().Unix()), metric.WithAttributes(attribute.String("listener", name)))
			}
		})
	}
	store := metric.WithAttributes(attribute.String("store", s.stores.Open.Traits().Name))
	v.gauge("slidegate.store.up", "", "Whether the store answered its last ping, which was sent within the last half second: 1 or 0.", func(to metric.Float64Observer) {
		to.Observe(oneIf(s.ready.check() == nil), store)
	})
	if s.state != nil {
		v.gauge("slidegate.state.saved_timestamp", "s", "When the state file was last written, in seconds since 1970.", func(to metric.Float64Observer) {
			to.Observe(float64(s.state.saved.Load()) / 1000)
		})
		v.counter("slidegate.state.save_failures", "{failure}", "Failed writes of the state file.", func(to metric.Int64Observer) {
			to.Observe(s.state.failed.Load())
		})
	}
	return v.err
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// vitals creates instruments until one fails.
type vitals struct {
	meter metric.Meter
	err   error
}

func (v *vitals) gauge(name, unit, what string, observe func(metric.Float64Observer)) {
	if v.err == nil {
		_, v.err = v.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what),
			metric.WithFloat64Callback(func(_ context.Context, to metric.Float64Observer) error {
				observe(to)
				return nil
			}))
	}
}

func (v *vitals) counter(name, unit, what string, observe func(metric.Int64Observer)) {
	if v.err == nil {
		_, v.err = v.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what),
			metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
				observe(to)
				return nil
			}))
	}
}
