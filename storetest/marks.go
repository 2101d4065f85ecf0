package storetest

import (
	"errors"
	"strings"

	"github.com/slidegate/slidegate/store"
)

// Marks returns which of the errors that say something about a store an error wraps: "down", "busy", "undone" and "refused", in
// this order and separated by spaces. It is for the tests of a store's errors.
func Marks(err error) string {
	var names []string
	for _, mark := range []struct {
		of   error
		name string
	}{{store.ErrDown, "down"}, {store.ErrBusy, "busy"}, {store.ErrUndone, "undone"}, {store.ErrRefused, "refused"}} {
		if errors.Is(err, mark.of) {
			names = append(names, mark.name)
		}
	}
	return strings.Join(names, " ")
}
