package stores

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// openMemory opens a store in this process. Its only layer is observation: there is no round trip to save or to share, and
// nothing fails.
func (o *Opened) openMemory(url string, opts *Options) error {
	memory, err := MemoryOptions(url)
	if err != nil {
		return err
	}
	if memory.MaxBytes == 0 {
		memory.MaxBytes = opts.MaxBytes
	}
	o.Memory = opts.Memory
	if o.Memory == nil {
		if o.Memory, err = memstore.New(memory); err != nil {
			return invalid("URL", "%w", err)
		}
	}
	o.ping = func(context.Context) error { return nil }
	if err := o.watchMemory(o.Memory, "memory", opts.MeterProvider); err != nil {
		return err
	}
	var st store.Store = o.Memory
	if opts.MeterProvider != nil {
		if st, err = o.observed(st, opts, observe.Options{}); err != nil {
			return err
		}
	}
	o.Stores = gate.Stores{Open: st, Closed: st, Local: st, Optimistic: st}
	o.Unanswered = st
	return nil
}

// MemoryOptions parses the URL of a store in memory.
func MemoryOptions(url string) (opts memstore.Options, err error) {
	_, rest, _ := strings.Cut(url, ":")
	path, query, _ := strings.Cut(rest, "?")
	if path != "" && path != "//" {
		return opts, invalid("URL", "memory: may be followed only by ?max_bytes=N")
	}
	if strings.Contains("&"+query, "&max_keys=") {
		return opts, invalid("URL", "max_keys: the bound is in bytes now; write max_bytes=256MiB, which is the default, or more: "+
			"a key takes 50 to 200 bytes of it per limit")
	}
	values, err := parseQuery(query, "max_bytes")
	if err != nil {
		return opts, err
	}
	if text := values.Get("max_bytes"); text != "" {
		if opts.MaxBytes, err = ParseBytes(text); err != nil {
			return opts, invalid("URL", "max_bytes: %w", err)
		}
	}
	if _, err = memstore.New(opts); err != nil { // checks the maximum
		return opts, invalid("URL", "max_bytes: %w", err)
	}
	return opts, nil
}

// observed puts observation over a store. Without a MeterProvider it still counts, for the log.
func (o *Opened) observed(st store.Store, opts *Options, options observe.Options) (*observe.Store, error) {
	options.MeterProvider, options.Policy = opts.MeterProvider, policyOf
	if options.MeterProvider == nil {
		options.MeterProvider = noop.NewMeterProvider()
	}
	observed, err := observe.New(st, options)
	if err != nil {
		return nil, fmt.Errorf("stores: %w", err)
	}
	o.close = append(o.close, observed.Close)
	return observed, nil
}

// policyOf returns the name of a limit's policy. Limits of candidates refuse nothing, and are counted by policy elsewhere.
func policyOf(limit *store.Limit) (name string, ok bool) {
	name = limit.Namespace()
	return policyName(name), !strings.HasSuffix(name, candidateNamespace)
}

// policyName returns the name of a namespace in metrics: the name of the policy, or envoy:DOMAIN for rules of Envoy.
func policyName(namespace string) string {
	if domain, ok := strings.CutPrefix(namespace, envoyNamespace); ok {
		return "envoy:" + domain
	}
	return namespace
}

// The suffix of namespaces of candidates, and the prefix of those of Envoy's domains. Policy names contain no slash.
const (
	candidateNamespace = "/candidate"
	envoyNamespace     = "envoy/"
)

// ParseBytes parses a number of bytes: an integer, optionally with a unit, such as 256MiB.
func ParseBytes(text string) (int64, error) {
	digits := strings.TrimRight(text, "BKMGTi")
	shift, known := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || !known || n < 1 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("must be a positive number of bytes, such as 268435456 or 256MiB (KiB, MiB, GiB, TiB), not %q", text)
	}
	return int64(n << shift), nil
}
