package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/race"
)

// secretKey must not be in any error.
const secretKey = "user-4711@example.org"

// faultLimit alone is decided by the fast path for the most common requests.
var faultLimit = slidegate.Limit{Name: "fault", Quota: 3, Window: time.Hour, Anchor: slidegate.AnchorFirst}

// open returns a store over connections to a database.
func open(t *testing.T, url string) *pgstore.Store {
	t.Helper()
	store, err := pgstore.New(pgtest.Pool(t, url), pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Each fault is an error that says what is wrong and what to do, and contains no key, by either path. The failure policy in
// front of the store applies.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		make     func(t *testing.T) *pgstore.Store // a store in front of a server with the fault
		code     string                            // SQLSTATE of the wrapped error; several alternatives are separated by spaces
		wantText string
	}{
		{"no schema", notMigrated, "42883", "run Migrate"},
		{"no table", tableDropped, "42P01 42883", "run Migrate"},
		{"no rights", withoutRights, "42501", "the role lacks a privilege"},
		{"rights to read only", readRights, "42501", "the role lacks a privilege"},
		{"no such database", noDatabase, "3D000", "does not exist"},
		{"replica", onReplica, "25006", "connect to the primary"},
		{"table locked", lockedTable, "57014", "statement_timeout"},
		{"lock timeout", lockTimeout, "55P03", "lock_timeout"},
		{"server gone", serverGone, "", "connect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := c.make(t)
			for _, charges := range [][]store.Charge{oneCharge(t), twoCharges(t)} {
				checkFault(t, st, charges, c.code, c.wantText)
			}
			checkModes(t, st)
		})
	}
}

func oneCharge(t *testing.T) []store.Charge {
	return []store.Charge{{Limit: boundFor(t, faultLimit), Key: secretKey, Cost: 1}}
}

func twoCharges(t *testing.T) []store.Charge {
	log := slidegate.Limit{Name: "log", Quota: 3, Window: time.Hour, Algorithm: slidegate.SlidingLog}
	return append(oneCharge(t), store.Charge{Limit: boundFor(t, log), Key: secretKey, Cost: 1})
}

// checkFault checks the error of a request.
func checkFault(t *testing.T, store store.Store, charges []store.Charge, code, wantText string) {
	t.Helper()
	granted, err := race.Take(store, charges...)
	if err == nil {
		t.Fatalf("%d charges: got no error, and %d granted", len(charges), granted)
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) != (code != "") || refused != nil && !strings.Contains(code, refused.Code) {
		t.Errorf("%d charges: want the server's error %s, got %v", len(charges), code, err)
	}
	if text := err.Error(); !strings.HasPrefix(text, "pgstore: ") || !strings.Contains(text, wantText) || strings.Contains(text, "4711") {
		t.Errorf("%d charges: got error %q", len(charges), text)
	}
}

// checkModes puts each failure mode in front of a store that does not answer.
func checkModes(t *testing.T, st store.Store) {
	t.Helper()
	for _, c := range []struct {
		mode    store.Mode
		flag    rule.Flags
		allowed []bool // of four requests, with a quota of three
	}{
		{store.FailOpen, rule.FallbackOpen, []bool{true, true, true, true}},
		{store.FailClosed, rule.FallbackClosed, []bool{false, false, false, false}},
		{store.FailLocal, rule.FallbackLocal, []bool{true, true, true, false}},
	} {
		guarded, err := stack.New(st, stack.Options{Failure: c.mode, Timeout: patience, ProbeEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		limiter, err := slidegate.New(guarded, faultLimit)
		if err != nil {
			t.Fatal(err)
		}
		for i, allowed := range c.allowed {
			d, err := limiter.Allow(context.Background(), secretKey)
			if err != nil || d.Allowed != allowed || d.Flags&c.flag == 0 {
				t.Errorf("mode %v, request %d: got %+v, %v, want allowed %t with the flag %v", c.mode, i, d, err, allowed, c.flag)
			}
		}
	}
}

func notMigrated(t *testing.T) *pgstore.Store { return open(t, pgtest.Shared(t).URL()) }

func tableDropped(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	s.Exec("DROP TABLE slidegate_state CASCADE") // which also drops some of the functions
	return open(t, s.URL())
}

func withoutRights(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	return open(t, s.Role(t, "stranger"))
}

func readRights(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	return open(t, s.Role(t, "reader", "SELECT ON TABLE slidegate_state"))
}

func noDatabase(t *testing.T) *pgstore.Store {
	url := pgtest.Shared(t).URL()
	return open(t, strings.Replace(url, "/slidegate_", "/another_", 1))
}

func onReplica(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Start(t, "fsync = off"), pgstore.Options{})
	return open(t, s.Replica(t).URL())
}

func lockedTable(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	lockUntilEnd(t, s)
	return open(t, s.URL("statement_timeout=50"))
}

func lockTimeout(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	lockUntilEnd(t, s)
	return open(t, s.URL("lock_timeout=50"))
}

// lockUntilEnd locks the table until the test ends.
func lockUntilEnd(t *testing.T, s *pgtest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn.Close(ctx)
	})
	if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE slidegate_state"); err != nil {
		t.Fatal(err)
	}
}

func serverGone(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Start(t, "fsync = off"), pgstore.Options{})
	s.Kill()
	return open(t, s.URL("connect_timeout=5"))
}

// The privileges in the documentation are enough to decide, and not enough to change the schema.
func TestDocumentedPrivilegesAreEnough(t *testing.T) {
	t.Parallel()
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	url := s.Role(t, "decider", "USAGE ON SCHEMA public", "SELECT, INSERT, UPDATE, DELETE ON TABLE slidegate_state")
	st := open(t, url)
	for _, charges := range [][]store.Charge{oneCharge(t), twoCharges(t)} {
		if granted, err := race.Take(st, charges...); granted != 1 || err != nil {
			t.Errorf("%d charges: got %d granted, %v, want 1", len(charges), granted, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := st.Apply(ctx, []store.Request{settlement(1, twoCharges(t)...)}); err != nil {
		t.Errorf("settling: %v", err)
	}
	if _, err := st.Expire(ctx); err != nil {
		t.Error(err)
	}
}

// A role that may not delete settles over several generations; with the privilege, it deletes what is no longer known.
func TestSettlesWithoutPrivilegeToDelete(t *testing.T) {
	t.Parallel()
	for privileges, want := range map[string]int64{"SELECT, INSERT, UPDATE": 6, "SELECT, INSERT, UPDATE, DELETE": 3} {
		s := migrated(t, pgtest.Shared(t), pgstore.Options{})
		now := rule.Micros(1_767_000_000e6)
		st := newStore(t, pgtest.Pool(t, s.Role(t, "settler", "USAGE ON SCHEMA public", privileges+" ON TABLE slidegate_state")),
			pgstore.Options{Now: func() rule.Micros { return now }})
		for id := range rule.ID(5) { // each in its own generation
			noError(t, st.Apply(t.Context(), []store.Request{settlement(id+1, oneCharge(t)...)}))
			now += 2*oneCharge(t)[0].Limit.Rule().Memory() + rule.LongMemory
		}
		rows := queryNumber(t, s.Pool(t), "SELECT count(*) FROM slidegate_state WHERE address LIKE '\\%settled%'")
		if rows != want {
			t.Errorf("%s: got %d rows of settlements, want %d", privileges, rows, want)
		}
	}
}

// A replica still answers requests that need not write: peeks, and refusals of an exhausted key.
func TestReplicaDecidesWhatWritesNothing(t *testing.T) {
	t.Parallel()
	s := migrated(t, pgtest.Start(t, "fsync = off"), pgstore.Options{})
	charge := oneCharge(t)[0]
	charge.Cost = faultLimit.Quota
	if granted, err := race.Take(open(t, s.URL()), charge); granted != faultLimit.Quota || err != nil {
		t.Fatalf("got %d, %v, want %d granted", granted, err, faultLimit.Quota)
	}
	replica := open(t, s.Replica(t).URL())
	if left := remaining(t, replica, charge); left != 0 {
		t.Errorf("got %d remaining from the replica", left)
	}
	charge.Cost = 1
	if granted, err := race.Take(replica, charge); granted != 0 || err != nil {
		t.Errorf("got %d granted by the replica, %v", granted, err)
	}
}

// With a full disk, requests that must be written fail, and refused requests do not. Once there is space again, all requests
// are decided again, and nothing that was admitted has been forgotten.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "fsync = off")
	disk := s.SmallDisk(t, 8)
	s.Exec("ALTER DATABASE postgres SET default_tablespace = " + disk)
	migrated(t, s, pgstore.Options{})
	store := open(t, s.URL())
	used := oneCharge(t)[0]
	used.Key = "used up"
	used.Cost = faultLimit.Quota
	if granted, err := race.Take(store, used); granted != faultLimit.Quota || err != nil {
		t.Fatalf("got %d, %v, want %d granted", granted, err, faultLimit.Quota)
	}
	s.Exec("CREATE TABLE ballast (text text)")
	fillDisk(t, s)
	var err error
	admitted := 0
	for ; err == nil && admitted < 20_000; admitted++ { // until the pages of the table are full too
		charge := oneCharge(t)[0]
		charge.Key = fmt.Sprintf("%s-%d", secretKey, admitted)
		_, err = race.Take(store, charge)
	}
	t.Logf("%d new keys went into what the table had", admitted-1)
	if err == nil || !strings.Contains(err.Error(), "disk is full") || strings.Contains(err.Error(), "4711") {
		t.Fatalf("on a full disk: got %v, want an error that says so, without a key", err)
	}
	last := oneCharge(t)
	last[0].Key = fmt.Sprintf("%s-%d", secretKey, admitted-1)
	checkFault(t, store, last, "53100", "disk is full")
	checkModes(t, withKey{store, last[0].Key})
	used.Cost = 1
	if granted, err := race.Take(store, used); granted != 0 || err != nil {
		t.Errorf("a refusal on a full disk: got %d granted, %v, want 0", granted, err)
	}
	s.Exec("DROP TABLE ballast", "CHECKPOINT") // files are removed at a checkpoint
	for want := faultLimit.Quota; want >= 0; want -= faultLimit.Quota {
		last[0].Cost = faultLimit.Quota
		if granted, err := race.Take(store, last[0]); granted != want || err != nil {
			t.Errorf("with free space again: got %d granted, want %d, %v", granted, want, err)
		}
	}
	if granted, err := race.Take(store, used); granted != 0 || err != nil {
		t.Errorf("the key that was exhausted before: got %d granted, %v, want 0", granted, err)
	}
}

// fillDisk writes rows, in smaller and smaller numbers, until not even one more fits the disk.
func fillDisk(t *testing.T, s *pgtest.Server) {
	t.Helper()
	pool := s.Pool(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for rows := 1_000; rows > 0; {
		_, err := pool.Exec(ctx, "INSERT INTO ballast SELECT repeat('x', 4000) FROM generate_series(1, $1)", rows)
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused) && refused.Code == "53100":
			rows /= 10
		case err != nil:
			t.Fatal(err)
		}
	}
}

// withKey is a store that replaces the key of every request.
type withKey struct {
	store.Store
	key string
}

func (w withKey) Apply(ctx context.Context, batch []store.Request) error {
	for i := range batch {
		for j := range batch[i].Charges {
			batch[i].Charges[j].Key = w.key
		}
	}
	return w.Store.Apply(ctx, batch)
}
