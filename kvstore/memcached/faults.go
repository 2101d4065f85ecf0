package memcached

import (
	"errors"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/store"
)

// textMarks has what errors of the server mean, by a part of their text: the client has no types for them. The server rejects each
// of these commands as a whole.
var textMarks = []struct {
	part  string
	marks []error
}{
	{"SERVER_ERROR out of memory", []error{store.ErrDown, store.ErrUndone}},
	{"read only", []error{store.ErrDown, store.ErrUndone}},
	{"read-only", []error{store.ErrDown, store.ErrUndone}},
	{"Too many open connections", []error{store.ErrBusy, store.ErrUndone}},
	{"unauthenticated", []error{store.ErrRefused, store.ErrDown, store.ErrUndone}},
	{"SERVER_ERROR object too large", []error{store.ErrUndone}}, // which concerns one entry
	{"SERVER_ERROR", []error{store.ErrDown}},
}

// fault returns an error of the client as one that wraps what it means for the store and for the command.
func fault(err error) error {
	var slow *memcache.ConnectTimeoutError
	if errors.As(err, &slow) || errors.Is(err, memcache.ErrNoServers) {
		return store.Fault(err, store.ErrDown, store.ErrUndone)
	}
	for _, known := range textMarks {
		if strings.Contains(err.Error(), known.part) {
			return store.Fault(err, known.marks...)
		}
	}
	return store.NetworkFault(err)
}
