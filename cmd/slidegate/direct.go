package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/store"
)

// storeTimeout is the timeout of the store. No client is waiting for the decision here, so it need not be short.
const storeTimeout = 5 * time.Second

// direct makes decisions with a store, as a service with the same file would.
type direct struct {
	file   *config.File
	stores *stores.Opened
	gate   *gate.Gate
}

func (f *decisionFlags) openStore(ctx context.Context) (decider, error) {
	flags := &policyFlags{Limit: f.Limit, Store: f.Store, Config: f.Config}
	file, err := flags.read()
	if err != nil {
		return nil, err
	}
	opened, err := stores.Open(ctx, file.Service.Store, stores.Options{Timeout: max(storeTimeout, file.Service.StoreTimeout)})
	if err != nil {
		return nil, flags.located(err)
	}
	d := &direct{stores: opened, file: file}
	if opened.Memory != nil {
		d.close()
		return nil, errors.New("--store: counts in memory are only known to the service; use --server, or name a shared store")
	}
	pingContext, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err = opened.Ping(pingContext); err != nil {
		err = inFlag("--store", err)
	} else {
		d.gate, err = gate.New(file, gate.Stores{Open: opened.Closed, Closed: opened.Closed, Local: opened.Closed, Optimistic: opened.Closed}, gate.Options{})
		err = flags.located(err)
	}
	if err == nil {
		err = d.obeyRulings(pingContext)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// obeyRulings puts the rulings of the store into force. A store that cannot keep documents has none to share.
func (d *direct) obeyRulings(ctx context.Context) error {
	book, err := rulings.Open(ctx, d.stores.Open, rulings.Options{})
	if errors.Is(err, store.ErrUnsupported) {
		return nil
	}
	if err == nil {
		defer book.Close()
		err = book.Read(ctx)
	}
	if err != nil {
		return fmt.Errorf("--store: the rulings of operators cannot be read: %w", err)
	}
	d.gate.SetRulings(book.Table())
	return nil
}

func (d *direct) close() {
	if d.gate != nil {
		_ = d.gate.Close()
	}
	_ = d.stores.Close() // the decision has been made
}

func (d *direct) decide(ctx context.Context, verb, policy, key string, cost int64) (decision, error) {
	decide := d.gate.Allow
	switch verb {
	case "peek":
		decide = d.gate.Peek
	case "charge":
		decide = d.gate.Charge
	}
	v, err := decide(ctx, gate.Request{Policy: policy, Key: key, Cost: cost})
	if err == nil && v.Decision.Flags.FallbackClosed() {
		err = errors.New("--store: no response in time")
	}
	if err != nil {
		return decision{}, d.explain(policy, err)
	}
	a := decision{
		Policy: v.Policy, Allowed: v.Decision.Allowed, By: v.By.String(), Limit: v.Decision.LimitName, Quota: v.Decision.Quota, Remaining: v.Decision.Remaining,
		RetryAfterMicros: retryMicros(v.Decision.RetryAfter), ResetAfterMicros: v.Decision.ResetAfter.Microseconds(),
	}
	text, err := json.Marshal(a)
	a.text = string(text)
	return a, err
}

func (d *direct) reset(ctx context.Context, policy, key string) error {
	keys, err := d.gate.Keys(policy, key)
	if err != nil {
		return d.explain(policy, err)
	}
	for _, key := range keys {
		if err := d.gate.Reset(ctx, gate.Request{Policy: policy, Key: key}); err != nil {
			return d.explain(policy, err)
		}
	}
	return nil
}

// explain replaces the gate's error about an unknown policy with the file's error, which names the option.
func (d *direct) explain(policy string, err error) error {
	if errors.Is(err, gate.ErrPolicy) || errors.Is(err, gate.ErrNoPolicy) {
		_, err = d.file.Policy(policy)
	}
	return err
}
