package failure_test

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// unplugged is a store on an unreachable server.
type unplugged struct{ store.Store }

func (unplugged) Traits() store.Traits {
	return store.Traits{Name: "unplugged", MaxCharges: 64, RoundTrips: 1}
}

func (unplugged) Apply(_ context.Context, batch []store.Request) error {
	err := fmt.Errorf("unplugged: no route to host: %w: %w", store.ErrDown, store.ErrUndone)
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

// Four processes share a store. When it cannot be reached, each continues with a quarter of the quota.
func Example() {
	st := failure.New(unplugged{memstore.NewDefault()}, failure.Options{Local: memstore.NewDefault(), Instances: 4})
	limiter, err := slidegate.New(st, slidegate.PerHour(10))
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := limiter.Allow(context.Background(), "alice")
		if err != nil {
			panic(err)
		}
		fmt.Println("allowed:", d.Allowed, "by the fallback:", d.Flags&rule.FallbackLocal != 0)
	}
	fmt.Println("by mode:", st.Stats().Fallbacks[store.FailLocal], "failed calls:", st.Stats().Failures)
	st.Close()
	// Output:
	// allowed: true by the fallback: true
	// allowed: true by the fallback: true
	// allowed: true by the fallback: true
	// allowed: false by the fallback: true
	// by mode: 4 failed calls: 1
}
