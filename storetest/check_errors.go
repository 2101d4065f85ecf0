package storetest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkErrors: how a store treats the batch it is given, when all goes well and when the context ends.
func checkErrors(t testing.TB, s *suite) {
	p := s.pair(t)
	limit := p.bind(slidegate.Limit{Name: "errors", Quota: 1_000, Window: time.Hour})
	if limit == nil {
		t.Skip("the store rejects a plain limit")
	}
	checkBorrows(p, limit)
	ended := func(end func(context.Context) (context.Context, context.CancelFunc)) {
		ctx, cancel := end(context.Background())
		cancel()
		checkEnded(p, limit, ctx)
	}
	ended(context.WithCancel)
	ended(func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, time.Unix(1, 0))
	})
	for range s.times(20) {
		checkEndsDuring(p, limit)
	}
}

// checkBorrows: the store changes nothing in a batch but answers and errors, and keeps no reference to it when it returns.
func checkBorrows(p *pair, limit *store.Limit) {
	p.t.Helper()
	for _, op := range []rule.Op{
		rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.Reset,
	} {
		// The answers are part of a longer slice: the elements next to them belong to the caller.
		answers := []rule.Answer{unfilled, unfilled, unfilled}
		charge := store.Charge{Limit: limit, Key: "borrowed", Cost: 2_000}
		request := store.Request{
			Op: op, Group: "group", Charges: []store.Charge{charge}, Answers: answers[1:2], Err: errStale,
		}
		batch := []store.Request{request}
		if err := p.store.Apply(context.Background(), batch); err != nil {
			p.fatalf("the store failed: %v", err)
		}
		if err := checkAnswered(&batch[0]); err != nil {
			p.fatalf("%v", err)
		}
		if answers[0] != unfilled || answers[2] != unfilled {
			p.fatalf("the store wrote outside Answers")
		}
		if batch[0].Charges[0] != charge || batch[0].Op != op || batch[0].Group != "group" {
			p.fatalf("the store changed the request: %s", describe(batch[0].Op, batch[0].Group, batch[0].Charges))
		}
		answers[1] = unfilled
		if _, err := decide(context.Background(), p.store.Apply, op, "group", charge); err != nil {
			p.fatalf("the store failed: %v", err)
		}
		if answers[1] != unfilled {
			p.fatalf("the store still writes to a batch after Apply returned")
		}
	}
}

// checkEnded: with a context that has ended, each request promptly gets the context's error, and nothing is charged.
func checkEnded(p *pair, limit *store.Limit, ctx context.Context) {
	p.t.Helper()
	batch, key := secretBatch(limit)
	var err error
	p.mustReturn("the context had ended", func() { err = p.store.Apply(ctx, batch) })
	checkOutcome(p, ctx, err, batch, key)
	for i := range batch {
		if batch[i].Err == nil {
			p.fatalf("request %d of a batch, a %v, was answered although the context had ended before Apply was called", i+1, batch[i].Op)
		}
	}
	if taker, ok := p.store.(store.SingleTaker); ok {
		p.mustReturn("the context had ended", func() { _, err = takeOne(ctx, taker, batch[0].Charges[0]) })
		if err == nil {
			p.fatalf("TakeSingle answered although the context had ended before it was called")
		}
		checkContextError(p, ctx, err, key)
	}
	for _, group := range []string{"", key} { // the reference received nothing
		p.both(rule.Peek, group, store.Charge{Limit: limit, Key: key, Cost: 1})
	}
	checkUsable(p, limit, key)
}

// checkEndsDuring ends the context during Apply, so that some requests are answered and some are not.
func checkEndsDuring(p *pair, limit *store.Limit) {
	p.t.Helper()
	batch, key := secretBatch(limit)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	go cancel()
	p.mustReturn("the context ended during Apply", func() { err = p.store.Apply(ctx, batch) })
	checkOutcome(p, ctx, err, batch, key)
	checkUsable(p, limit, key+"-2") // another key: requests sent to a server may still be carried out
}

// secretBatch returns a batch with a key that must not appear in an error.
func secretBatch(limit *store.Limit) (batch []store.Request, key string) {
	key = "secret-" + rand.Text()
	for _, op := range []rule.Op{rule.Take, rule.Peek, rule.TakeUpTo, rule.GiveBack} {
		for _, group := range []string{"", key} {
			batch = append(batch, newRequest(op, group, store.Charge{Limit: limit, Key: key, Cost: 1}))
		}
	}
	return batch, key
}

func checkOutcome(p *pair, ctx context.Context, err error, batch []store.Request, key string) {
	p.t.Helper()
	var first error
	for i := range batch {
		request := &batch[i]
		if request.Err == nil || request.Err == errStale {
			if problem := checkAnswered(request); problem != nil {
				p.fatalf("request %d of a batch whose context ended has neither an error nor an answer: %v", i+1, problem)
			}
			continue
		}
		checkContextError(p, ctx, request.Err, key)
		if first == nil {
			first = request.Err
		}
	}
	switch {
	case (err == nil) != (first == nil):
		p.fatalf("Apply returned %v, want the first Err, %v", err, first)
	case err != nil && (err.Error() != first.Error() || !errors.Is(err, first)):
		p.fatalf("Apply returned %q, want the first Err, %q", err, first)
	}
}

func checkContextError(p *pair, ctx context.Context, err error, key string) {
	p.t.Helper()
	if !errors.Is(err, ctx.Err()) {
		p.fatalf("the context has ended; got the error %v, want the context's", err)
	}
	if errors.Is(err, store.ErrDown) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrRefused) {
		p.fatalf("the context has ended; got the error %v, which wraps %s: a caller that leaves says nothing about the store", err, Marks(err))
	}
	spellings := []string{
		key, hex.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(key)), fmt.Sprint([]byte(key)),
	}
	if text := strings.ToLower(err.Error()); slices.ContainsFunc(spellings, func(s string) bool {
		return strings.Contains(text, strings.ToLower(s))
	}) {
		p.fatalf("an error contains a key: %v", err)
	}
}

// checkUsable: whatever happened to requests whose context ended, the key is usable afterwards. What was charged is
// unknown, so the key is reset first.
func checkUsable(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	for _, group := range []string{"", key} {
		charge := store.Charge{Limit: limit, Key: key, Cost: 1}
		p.both(rule.Reset, group, charge)
		p.both(rule.Take, group, charge)
	}
}
