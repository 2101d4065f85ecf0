package stores_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

func openBook(t *testing.T, url string) *rulings.Book {
	t.Helper()
	return bookIn(t, openConnected(t, url, patientOptions()))
}

func bookIn(t *testing.T, o *open.Opened) *rulings.Book {
	t.Helper()
	book, err := rulings.Open(ctx, o.Store, rulings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	return book
}

func blockOf(key string) rulings.Ruling {
	return rulings.Ruling{Policy: "p", Key: key, Kind: rulings.Block, Who: "ann", Why: "a \"reason\" — 理由"}
}

func revision(book *rulings.Book) int64 {
	n, _ := book.State()
	return n
}

func isBlocked(book *rulings.Book, key string) bool {
	all, _ := book.List()
	return ruled.Find(all, "p", key) != nil
}

// TestRulings shares rulings between two processes, through the layers of the service: none of concurrent changes is lost, and both
// apply all of them.
func TestRulings(t *testing.T) {
	for name, url := range map[string]func() string{
		"Redis":      func() string { return "redis://" + redistest.Server(t).Addr() },
		"PostgreSQL": func() string { return pgtest.Start(t, "fsync = off").URL("slidegate_prefix=my_", "pool_max_conns=4") },
		"NATS":       func() string { return natstest.Start(t) },
		"Redis Cluster": func() string {
			var addresses []string
			for _, node := range redistest.Cluster(t) {
				addresses = append(addresses, node.Addr())
			}
			return "redis+cluster://" + strings.Join(addresses, ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := url()
			books := []*rulings.Book{openBook(t, at), openBook(t, at)}
			const each = 15
			var all sync.WaitGroup
			for i, book := range books {
				all.Go(func() {
					for j := range each {
						if _, _, err := book.Add(ctx, blockOf(fmt.Sprint("\x00", i, "-", j))); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			for _, book := range append(books, openBook(t, at)) {
				testkit.Eventually(t, "all rulings are applied", func() bool {
					found, err := book.List()
					return err == nil && len(found) == 2*each && revision(book) == 2*each
				})
			}
			if _, err := books[0].Remove(ctx, blockOf("\x001-3")); err != nil {
				t.Error(err)
			}
			testkit.Eventually(t, "the end is applied", func() bool { return !isBlocked(books[1], "\x001-3") })
			if log, err := books[1].Log(ctx, 100); err != nil || len(log) != 2*each+1 || log[0].Kind != rulings.Clear {
				t.Errorf("the log: got %d changes, %v; want %d", len(log), err, 2*each+1)
			}
		})
	}
}

// TestRulingsAfterFlush empties Redis right after a ruling was made: both processes apply it, whichever of them notices first, and so
// does one that starts later.
func TestRulingsAfterFlush(t *testing.T) {
	server := redistest.Server(t)
	client, url := server.Client(t), "redis://"+server.Addr()
	books := []*rulings.Book{openBook(t, url), openBook(t, url)}
	for round := range 4 {
		key := fmt.Sprint("bad", round)
		if _, _, err := books[round%2].Add(ctx, blockOf(key)); err != nil {
			t.Fatal(err)
		}
		testkit.NoError(t, client.Do(ctx, client.B().Arbitrary("FLUSHALL").Build()).Error())
		for i, book := range books {
			testkit.Eventually(t, fmt.Sprintf("book %d has the block and its end in the store", i), func() bool {
				_, readAt := book.State()
				return isBlocked(book, key) && revision(book) == revision(books[0]) && time.Since(readAt) < time.Second
			})
		}
	}
	testkit.Eventually(t, "the store has all", func() bool {
		found, err := openBook(t, url).List()
		return err == nil && len(found) == 4
	})
}

// TestRulingsWithoutTables checks that without the tables, and without permission in the URL to create them, the error says what is
// missing.
func TestRulingsWithoutTables(t *testing.T) {
	o := openStore(t, pgtest.Start(t, "fsync = off").URL("slidegate_migrate=false"), patientOptions())
	testkit.Eventually(t, "the store is connected", func() bool { return o.Err() == nil })
	book := bookIn(t, o)
	if _, err := book.List(); err == nil {
		t.Errorf("got %v, want an error: they are not read", err)
	}
	if _, _, err := book.Add(ctx, blockOf("a")); err == nil || !strings.Contains(err.Error(), "run Migrate") {
		t.Errorf("got %v, want an error that names the fix", err)
	}
}
