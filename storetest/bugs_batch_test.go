package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Bugs in the handling of a batch: its order, its errors, its memory.

func batchBugs() []bug {
	return []bug{
		{"decides a batch from its end", "batch", plant(func(r *Reference) applyFunc {
			return func(ctx context.Context, batch []store.Request) error {
				var first error
				for i := len(batch) - 1; i >= 0; i-- {
					first = errors.Join(first, r.Apply(ctx, batch[i:i+1]))
				}
				return first
			}
		})},
		{"returns the answers of a batch in the wrong order", "batch", plant(func(r *Reference) applyFunc {
			return func(ctx context.Context, batch []store.Request) error {
				err := r.Apply(ctx, batch)
				if n := len(batch); n > 1 {
					batch[0].Answers[0], batch[n-1].Answers[0] = batch[n-1].Answers[0], batch[0].Answers[0]
				}
				return err
			}
		})},
		{"charges a key once per batch", "batch", plant(chargingOnce)},
		{"decides only the first hundred requests", "batch", plant(func(r *Reference) applyFunc {
			return func(ctx context.Context, batch []store.Request) error {
				for i := min(len(batch), 100); i < len(batch); i++ {
					batch[i].Err = nil
				}
				return r.Apply(ctx, batch[:min(len(batch), 100)])
			}
		})},
	}
}

// chargingOnce reads and writes all keys of a batch together, so that of several requests for a key the last one wins.
func chargingOnce(r *Reference) applyFunc {
	return func(ctx context.Context, batch []store.Request) error {
		seen := map[string]rule.Answer{}
		for i := range batch {
			request := &batch[i]
			name := address(request.Charges[0].Limit.Prefix(), request.Group, request.Charges[0].Key)
			if a, again := seen[name]; again && len(request.Charges) == 1 {
				request.Answers[0], request.Err = a, nil
				continue
			}
			if err := r.Apply(ctx, batch[i:i+1]); err != nil {
				return err
			}
			seen[name] = request.Answers[0]
		}
		return nil
	}
}

func errorBugs() []bug {
	failing := func(fail func(i int, request *store.Request, err error) error) Open {
		return plant(func(r *Reference) applyFunc {
			return func(ctx context.Context, batch []store.Request) error {
				if ctx.Err() == nil {
					return r.Apply(ctx, batch)
				}
				var last error
				for i := range batch {
					last = fail(i, &batch[i], ctx.Err())
				}
				return last
			}
		})
	}
	return append(borrowingBugs(), []bug{
		{"answers nothing when the context has ended", "errors", failing(func(int, *store.Request, error) error {
			return nil
		})},
		{"reports success without an answer", "errors", failing(func(_ int, request *store.Request, _ error) error {
			request.Err = nil
			return nil
		})},
		{"returns an error but sets no Err", "errors", failing(func(_ int, _ *store.Request, err error) error {
			return err
		})},
		{"sets Err but returns no error", "errors", failing(func(_ int, request *store.Request, err error) error {
			request.Err = err
			return nil
		})},
		{"returns the last error", "errors", failing(func(i int, request *store.Request, err error) error {
			request.Err = fmt.Errorf("request %d: %w", i, err)
			return request.Err
		})},
		{"puts the key into an error", "errors", failing(func(_ int, request *store.Request, err error) error {
			request.Err = fmt.Errorf("key %q: %w", request.Charges[0].Key, err)
			return request.Err
		})},
		{"hides the error of the context", "errors", failing(func(_ int, request *store.Request, _ error) error {
			request.Err = errors.New("odd: ended")
			return request.Err
		})},
		{"is down for a caller that left", "errors", failing(func(_ int, request *store.Request, err error) error {
			request.Err = store.Fault(err, store.ErrDown)
			return request.Err
		})},
		{"ignores the context", "errors", plant(ignoringContext)},
		{"ignores the context of single takes", "errors", func(t testing.TB, clock *Clock) store.Store {
			r := NewReference(clock)
			return &planted{Reference: r, apply: r.Apply, takeOne: ignoringContext(r)}
		}},
		{"charges before it checks the context", "errors", plant(func(r *Reference) applyFunc {
			return func(ctx context.Context, batch []store.Request) error {
				if err := r.Apply(context.Background(), batch); err != nil || ctx.Err() == nil {
					return err
				}
				for i := range batch {
					batch[i].Err = ctx.Err()
				}
				return ctx.Err()
			}
		})},
		{"hangs when the context has ended", "errors", func(t testing.TB, clock *Clock) store.Store {
			r, end := NewReference(clock), make(chan struct{})
			t.Cleanup(func() { close(end) })
			return &planted{Reference: r, apply: func(ctx context.Context, batch []store.Request) error {
				if ctx.Err() != nil {
					<-end
				}
				return r.Apply(ctx, batch)
			}}
		}},
	}...)
}

// ignoringContext decides even if the context has ended.
func ignoringContext(r *Reference) applyFunc {
	return func(_ context.Context, batch []store.Request) error { return r.Apply(context.Background(), batch) }
}

// borrowingBugs are about memory that belongs to the caller.
func borrowingBugs() []bug {
	return []bug{
		{"leaves an old error in Err", "errors", plant(func(r *Reference) applyFunc {
			return func(ctx context.Context, batch []store.Request) error {
				before := batch[0].Err
				err := r.Apply(ctx, batch)
				batch[0].Err = before
				return err
			}
		})},
		{"changes the costs of a request", "errors", deciding(func(r *Reference, request *store.Request) {
			r.decide(request)
			request.Charges[0].Cost = request.Answers[0].Granted
		})},
		{"keeps a reference to the answers", "errors", plant(func(r *Reference) applyFunc {
			var kept []rule.Answer
			return func(ctx context.Context, batch []store.Request) error {
				err := r.Apply(ctx, batch)
				copy(kept, batch[0].Answers)
				kept = batch[0].Answers
				return err
			}
		})},
		{"writes one answer too many", "errors", deciding(func(r *Reference, request *store.Request) {
			r.decide(request)
			request.Answers = slices.Grow(request.Answers, 1)
			_ = append(request.Answers, request.Answers[0])
		})},
	}
}
