package httplimit

import (
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/memstore"
)

// LimitByIP limits each client address to quota requests in window, in the memory of this process. It panics if quota or window
// is invalid. Behind a proxy, where all clients have the proxy's address, use Limit with a ByAddress that trusts the proxy.
func LimitByIP(quota int64, window time.Duration) func(http.Handler) http.Handler {
	return Limit(quota, window, ByAddress(nil))
}

// LimitAll limits all clients together to quota requests in window, in the memory of this process. It panics if quota
// or window is invalid.
func LimitAll(quota int64, window time.Duration) func(http.Handler) http.Handler {
	return Limit(quota, window)
}

// Limit limits requests with the same keys to quota in window, in the memory of this process; without keys, all requests
// together. It panics if quota or window is invalid, or a key is nil. New offers all other options.
func Limit(quota int64, window time.Duration, keys ...Key) func(http.Handler) http.Handler {
	keyform.MustHaveKeys("httplimit: Limit", keys)
	key := Global()
	switch len(keys) {
	case 0:
	case 1:
		key = keys[0]
	default:
		key = AllOf(keys...)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	limiter, err := slidegate.New(store, slidegate.Limit{Quota: quota, Window: window})
	if err != nil {
		panic(err)
	}
	m, err := New(limiter, Options{Policies: []Policy{{Key: key}}})
	if err != nil {
		panic(err)
	}
	return m.Wrap
}
