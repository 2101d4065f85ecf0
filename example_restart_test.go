package slidegate_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// A process continues where the last one was, even if that was killed: what it has decided is recorded in a folder.
func Example_restart() {
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		log.Fatal(err)
	}
	limit := slidegate.PerHour(100)
	for range 2 {
		store, err := memstore.Open(dir, memstore.Options{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(take(store, limit, 40))
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 60 left
	// 20 left
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
