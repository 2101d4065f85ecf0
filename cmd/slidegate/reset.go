package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/rulingsapi"
	"github.com/slidegate/slidegate/rule"
)

// resetCommand clears the counts of a key.
type resetCommand struct {
	Key string `arg:"" help:"The key to reset, as the page and the logs show it."`
	operatorFlags
}

// usedKey is what a key had used before it was reset.
type usedKey struct {
	Policy, Key string
	Limits      []gate.LimitState
	Penalty     rule.Micros `json:"penalty_us"`
}

// Run resets the key.
func (r *resetCommand) Run(ctx context.Context, c *console) error {
	key := operatorKey(r.Key)
	query := url.Values{"key": {key}}
	if r.Policy != "" {
		query.Set("policy", r.Policy)
	}
	var before usedKey
	quiet := *c
	quiet.out = io.Discard
	_, unknown := r.keyFlags.send(ctx, &quiet, http.MethodGet, "/v1/state?"+query.Encode(), nil, &before) // not all stores say it
	if _, err := r.send(ctx, c, "/v1/reset", rulingsapi.Change{Key: key}, nil); err != nil {
		return err
	}
	var err error
	if unknown != nil {
		_, err = fmt.Fprintf(c.out, "%q: reset\n", unquoteKey(r.Key))
	} else {
		_, err = fmt.Fprintf(c.out, "%q under the policy %s: reset%s\n", before.Key, before.Policy, before.unused())
	}
	return err
}

// unused says that a key had used nothing, as one does that is misspelt.
func (k *usedKey) unused() string {
	for i := range k.Limits {
		if k.Limits[i].Used > 0 {
			return ""
		}
	}
	if len(k.Limits) == 0 || k.Penalty > 0 {
		return ""
	}
	return "; it had used nothing: check the spelling"
}
