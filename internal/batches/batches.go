// Package batches has what stores and layers do with the errors of a batch of requests.
package batches

import (
	"slices"

	"github.com/slidegate/slidegate/store"
)

// FailAll sets Err of all requests, and returns it.
func FailAll(batch []store.Request, err error) error {
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

// FirstError returns the first Err, or nil.
func FirstError(batch []store.Request) error {
	for i := range batch {
		if batch[i].Err != nil {
			return batch[i].Err
		}
	}
	return nil
}

// Spread sets Err of all requests to the error of a store that has set it on none of them: then it is not known which request failed, and
// no answer can be trusted. It reports whether that is so.
func Spread(batch []store.Request, err error) bool {
	if slices.ContainsFunc(batch, func(r store.Request) bool { return r.Err != nil }) {
		return false
	}
	_ = FailAll(batch, err)
	return true
}
