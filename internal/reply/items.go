package reply

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// maxItems is how many limits are cached; further limits work too, and are prepared for each request.
const maxItems = 1024

// Items prepares limits for header fields and caches them, so that a limit that was seen before costs one look-up. The
// zero value is empty and ready to use. It is safe for concurrent use, and must not be copied.
type Items struct {
	known atomic.Pointer[map[slidegate.Limit]*Item] // read without a lock, so never modified
	mu    sync.Mutex
}

// Append appends the items of limits. A limit whose name is not printable ASCII is named by its text.
func (c *Items) Append(items []*Item, limits []slidegate.Limit) []*Item {
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

func lenientItem(limit slidegate.Limit) *Item {
	item, err := NewItem(limit)
	if err != nil {
		limit.Name = ""
		item, _ = NewItem(limit) // a limit's text is always printable ASCII
	}
	return item
}

// find returns the cached item of a limit, or nil.
func (c *Items) find(limit slidegate.Limit) *Item {
	if known := c.known.Load(); known != nil {
		return (*known)[limit]
	}
	return nil
}

// keep caches the item of a limit, unless the cache is full.
func (c *Items) keep(limit slidegate.Limit, item *Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[slidegate.Limit]*Item{}
	if known := c.known.Load(); known != nil {
		if len(*known) >= maxItems {
			return
		}
		next = maps.Clone(*known)
	}
	next[limit] = item
	c.known.Store(&next)
}
