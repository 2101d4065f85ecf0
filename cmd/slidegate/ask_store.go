package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/config"
)

// patience is how long a store may take to answer. Nobody's request waits for it here, so it need not be short.
const patience = 5 * time.Second

// direct asks a store itself, as a service with the same file would.
type direct struct {
	file   *config.File
	stores *stores.Opened
	gate   *gate.Gate
}

func (f *askFlags) openStore(ctx context.Context) (asked, error) {
	flags := &policyFlags{Limit: f.Limit, Store: f.Store, Config: f.Config}
	file, err := flags.read()
	if err != nil {
		return nil, err
	}
	opened, err := stores.Open(ctx, file.Service.Store, stores.Options{Timeout: max(patience, file.Service.StoreTimeout)})
	if err != nil {
		return nil, flags.located(err)
	}
	d := &direct{stores: opened, file: file}
	if opened.Memory != nil {
		d.close()
		return nil, errors.New("--store: counts in memory are the service's alone: ask it with --server, or name a store that is shared")
	}
	pinged, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err = opened.Ping(pinged); err != nil {
		err = inFlag("--store", err)
	} else {
		d.gate, err = gate.New(file, gate.Stores{Open: opened.Closed, Closed: opened.Closed, Local: opened.Closed, Optimistic: opened.Closed}, gate.Options{})
		err = flags.located(err)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *direct) close() {
	if d.gate != nil {
		_ = d.gate.Close()
	}
	_ = d.stores.Close() // the answer is known by now
}

func (d *direct) ask(ctx context.Context, verb, policy, key string, cost int64) (answer, error) {
	ask := d.gate.Allow
	switch verb {
	case "peek":
		ask = d.gate.Peek
	case "charge":
		ask = d.gate.Charge
	}
	v, err := ask(ctx, gate.Ask{Policy: policy, Key: key, Cost: cost})
	if err == nil && v.Decision.Flags.FallbackClosed() {
		err = errors.New("--store: it did not answer in time")
	}
	if err != nil {
		return answer{}, d.explain(policy, err)
	}
	a := answer{
		Policy: v.Policy, Allowed: v.Decision.Allowed, Limit: v.Decision.LimitName, Quota: v.Decision.Quota, Remaining: v.Decision.Remaining,
		RetryAfterMicros: micro(v.Decision.RetryAfter), ResetAfterMicros: v.Decision.ResetAfter.Microseconds(),
	}
	text, err := json.Marshal(a)
	a.text = string(text)
	return a, err
}

func (d *direct) reset(ctx context.Context, policy, key string) error {
	return d.explain(policy, d.gate.Reset(ctx, gate.Ask{Policy: policy, Key: key}))
}

// explain returns the file's error where the gate's is about the name of a policy: it knows which option that is.
func (d *direct) explain(policy string, err error) error {
	if errors.Is(err, gate.ErrPolicy) {
		_, err = d.file.Policy(policy)
	}
	return err
}
