package pgstore_test

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/race"
)

// Errors of a real server wrap what they mean, and what they say was not carried out was not.
func TestWhatErrorsMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(t *testing.T) *pgstore.Store
		want string
	}{
		{"no schema", notMigrated, "down undone"},
		{"no rights", withoutRights, "down undone refused"},
		{"no such database", noDatabase, "down undone refused"},
		{"no such role", noRole, "down undone refused"},
		{"read-only", readOnly, "down undone"},
		{"table locked", lockedTable, "undone"},
		{"lock timeout", lockTimeout, "undone"},
		{"server gone", serverGone, "down undone"},
		{"no connections left", noConnections, "busy undone"},
		{"no such host", noHost, "down undone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := c.make(t)
			_, err := race.Take(st, oneCharge(t)...)
			if got := storetest.Marks(err); got != c.want {
				t.Errorf("got %q of %v, want %q", got, err, c.want)
			}
			if _, _, err := st.LoadDocument(t.Context(), "name", 0); c.name == "server gone" && storetest.Marks(err) != c.want {
				t.Errorf("a document: got %q of %v, want %q", storetest.Marks(err), err, c.want)
			}
		})
	}
}

func noRole(t *testing.T) *pgstore.Store {
	u := kit.Must(url.Parse(pgtest.Shared(t).URL()))(t)
	u.User = url.UserPassword("nobody_has_this_name", "word")
	return open(t, u.String())
}

func readOnly(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	return open(t, s.URL("default_transaction_read_only=on"))
}

func noHost(t *testing.T) *pgstore.Store {
	return open(t, "postgres://postgres@name.invalid:5432/postgres")
}

// noConnections returns a store of a role that may have one connection, which is taken.
func noConnections(t *testing.T) *pgstore.Store {
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	at := s.Role(t, "busy", "USAGE ON SCHEMA public", "SELECT, INSERT, UPDATE, DELETE ON TABLE slidegate_state")
	s.Exec("ALTER ROLE " + kit.Must(url.Parse(at))(t).User.Username() + " CONNECTION LIMIT 1")
	conn := kit.Must(pgx.Connect(t.Context(), at))(t)
	t.Cleanup(func() { conn.Close(t.Context()) })
	return open(t, at)
}

// A session that the server ends may have committed; the next one is not affected.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	s := migrated(t, pgtest.Shared(t), pgstore.Options{})
	st := open(t, s.URL("application_name=ended", "pool_max_conns=1"))
	charge := oneCharge(t)[0]
	if granted, err := race.Take(st, charge); granted != 1 || err != nil {
		t.Fatalf("got %d granted, %v", granted, err)
	}
	s.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ended'")
	if _, err := race.Take(st, charge); err != nil && storetest.Marks(err) != "busy" { // pgx may notice in time
		t.Errorf("got %q of %v, want busy", storetest.Marks(err), err)
	}
	if granted, err := race.Take(st, charge); granted != 1 || err != nil {
		t.Errorf("over the next session: got %d granted, %v", granted, err)
	}
}
