package slidegate_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// A process that saves its store before a restart continues where it was. The snapshot normally goes to a file; here it
// stays in memory.
func Example_restart() {
	limit := slidegate.PerHour(100)
	store := memstore.NewDefault()
	fmt.Println(take(store, limit, 60))

	var file bytes.Buffer
	if err := store.Snapshot(&file); err != nil {
		log.Fatal(err)
	}
	store, err := memstore.Restore(&file, memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(take(store, limit, 30))
	// Output:
	// 40 left
	// 10 left
}

func take(store store.Store, limit slidegate.Limit, n int64) string {
	limiter, err := slidegate.New(store, limit)
	if err != nil {
		log.Fatal(err)
	}
	decision, err := limiter.AllowN(context.Background(), "user:42", n)
	if err != nil {
		log.Fatal(err)
	}
	return fmt.Sprint(decision.Remaining, " left")
}
