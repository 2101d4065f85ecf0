package stores

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// openMemory opens a store in this process. It has no layer but observation: there is no round trip to save or to share,
// and nothing that fails.
func (o *Opened) openMemory(url string, opts *Options) error {
	maxKeys := opts.MaxKeys
	if _, rest, _ := strings.Cut(url, ":"); rest != "" {
		path, query, _ := strings.Cut(rest, "?")
		if path != "" && path != "//" {
			return invalid("URL", "memory: has nothing after the colon but ?max_keys=N")
		}
		values, err := parseQuery(query, "max_keys")
		if err != nil {
			return err
		}
		if text := values.Get("max_keys"); text != "" {
			if maxKeys, err = strconv.Atoi(text); err != nil || maxKeys < 1 {
				return invalid("URL", "max_keys: must be a whole number above 0, not %q", text)
			}
		}
	}
	o.Memory = opts.Memory
	if o.Memory == nil {
		var err error
		if o.Memory, err = memstore.New(memstore.Options{MaxKeys: maxKeys}); err != nil {
			return fmt.Errorf("stores: %w", err)
		}
	}
	o.ping = func(context.Context) error { return nil }
	store, err := o.observed(o.Memory, opts)
	o.Stores = gate.Stores{Open: store, Closed: store, Local: store}
	return err
}

// observed puts observation over a store, if anybody wants metrics.
func (o *Opened) observed(store store.Store, opts *Options) (store.Store, error) {
	if opts.MeterProvider == nil {
		return store, nil
	}
	observed, err := observe.New(store, observe.Options{MeterProvider: opts.MeterProvider})
	if err != nil {
		return nil, fmt.Errorf("stores: %w", err)
	}
	o.close = append(o.close, observed.Close)
	return observed, nil
}
