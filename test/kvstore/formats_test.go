package kvstore_test

import (
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/formats"
)

// entries is a table as a server of package formats.
func entries() formats.Entries {
	table := &kvtest.Table{}
	return formats.Entries{
		Names:  func(testing.TB) []string { return table.Names() },
		Get:    func(t testing.TB, name string) []byte { value, _, _ := table.Get(t.Context(), name); return value },
		Put:    func(_ testing.TB, name string, value []byte) { table.Put(name, value) },
		Forget: func(testing.TB) { table.Clear() },
		New: func(t testing.TB, now func() rule.Micros) store.Store {
			return testkit.Must(kvstore.New(table, kvstore.Options{Now: now}))(t)
		},
	}
}

// What a newer version has written is an error, and left as it is.
func TestRejectsNewerFormats(t *testing.T) {
	formats.CheckNewer(t, entries(), formats.NewerEntry)
}
