package httplimit

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// maxItems is how many limits are cached; further limits work too, and are prepared for each request.
const maxItems = 1024

// HeaderItems prepares limits for header fields and caches them, so that a limit that was seen before costs one look-up. The
// zero value is empty and ready to use. It is safe for concurrent use, and must not be copied.
type HeaderItems struct {
	known atomic.Pointer[map[slidegate.Limit]*HeaderItem] // read without a lock, so never modified
	mu    sync.Mutex
}

// Append appends the items of limits. A limit whose name is not printable ASCII is named by its text.
func (c *HeaderItems) Append(items []*HeaderItem, limits []slidegate.Limit) []*HeaderItem {
	for _, limit := range limits {
		item := c.find(limit)
		if item == nil {
			item = lenientItem(limit)
			c.keep(limit, item)
		}
		items = append(items, item)
	}
	return items
}

func lenientItem(limit slidegate.Limit) *HeaderItem {
	item, err := NewHeaderItem(limit)
	if err != nil {
		limit.Name = ""
		item, _ = NewHeaderItem(limit) // a limit's text is always printable ASCII
	}
	return item
}

// find returns the cached item of a limit, or nil.
func (c *HeaderItems) find(limit slidegate.Limit) *HeaderItem {
	if known := c.known.Load(); known != nil {
		return (*known)[limit]
	}
	return nil
}

// keep caches the item of a limit, unless the cache is full.
func (c *HeaderItems) keep(limit slidegate.Limit, item *HeaderItem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[slidegate.Limit]*HeaderItem{}
	if known := c.known.Load(); known != nil {
		if len(*known) >= maxItems {
			return
		}
		next = maps.Clone(*known)
	}
	next[limit] = item
	c.known.Store(&next)
}
