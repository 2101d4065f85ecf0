package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	for name, params := range map[string][]string{
		"prepared": nil, "simple protocol": {"default_query_exec_mode=simple_protocol"}, "exec": {"default_query_exec_mode=exec"},
		"serializable": {"default_transaction_isolation=serializable"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock(1_767_000_000e6)
			opts := pgstore.Options{Prefix: "my_", Now: clock.Now}
			pool := database(t, opts, params...)
			storetest.RunBoard(t, clock, newStore(t, pool, opts), kit.Must(pgstore.NewSQL(stdlib.OpenDBFromPool(pool), opts))(t))
		})
	}
}

// What is on the board is deleted with the states after it has ended, and not before. By the server's clock it is valid at once.
func TestBoardIsSwept(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{Grace: time.Millisecond})
	if err := s.Post(t.Context(), "look", "one", []byte("note"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if notes, err := s.Notes(t.Context(), "look"); err != nil || string(notes["one"]) != "note" {
		t.Errorf("got %q, %v, want the note", notes, err)
	}
	for _, c := range []struct {
		after   time.Duration
		deleted int64
	}{{time.Minute, 0}, {2 * time.Hour, 1}} {
		later := newStore(t, pool, pgstore.Options{Grace: time.Millisecond, Now: storetest.NewClock(rule.Micros(time.Now().Add(c.after).UnixMicro())).Now})
		if deleted, err := later.Expire(t.Context()); deleted != c.deleted || err != nil {
			t.Errorf("after %v: got %d rows deleted, %v, want %d", c.after, deleted, err, c.deleted)
		}
	}
}

// A row that another program wrote is not taken for a note.
func TestForeignNotes(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	s := newStore(t, pool, pgstore.Options{})
	if err := s.Post(t.Context(), "look", "ok", []byte("note"), time.Hour); err != nil {
		t.Fatal(err)
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO slidegate_state (version, expires, current, previous, address, more)
		SELECT 0, 9000000000000000, 0, previous, '%note:look:' || name, more FROM (VALUES
			('none', -1, NULL), ('empty', -1, '{}'), ('short', -1, '{9,0}'), ('minus', -1, '{-1,0}'), ('large', -1, array_fill(40000::bigint, '{5001}')),
			('newer', -2, '{0}'), ('Odd', -1, '{0}'), ('a b', -1, '{0}')) v(name, previous, more)`)
	if err != nil {
		t.Fatal(err)
	}
	if notes, err := s.Notes(t.Context(), "look"); err != nil || len(notes) != 1 || string(notes["ok"]) != "note" {
		t.Errorf("got %q, %v; want the note that is valid", notes, err)
	}
}
