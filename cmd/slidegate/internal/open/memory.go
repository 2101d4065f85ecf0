package open

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/internal/storeurl"
	"github.com/slidegate/slidegate/memstore"
)

// isMemory reports whether a URL is that of a store in this process.
func isMemory(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return scheme == "" || strings.EqualFold(scheme, "memory")
}

// openMemory opens a store in this process. Its only layer is observation: there is no round trip to save or to share, and
// nothing fails.
func (o *Opened) openMemory(url string, opts *Options) error {
	memory, err := MemoryOptions(url)
	if err != nil {
		return err
	}
	o.Memory = opts.Memory
	if o.Memory == nil {
		if o.Memory, err = memstore.New(memory); err != nil {
			return invalid("URL", err)
		}
	}
	return o.putLayers(o.Memory, opts)
}

// MemoryOptions parses the URL of a store in memory.
func MemoryOptions(url string) (opts memstore.Options, err error) {
	_, rest, _ := strings.Cut(url, ":")
	path, query, _ := strings.Cut(rest, "?")
	if path != "" && path != "//" {
		return opts, invalid("URL", errors.New("memory: may be followed only by ?max_bytes=N"))
	}
	values, err := storeurl.ParseQuery(query, "max_bytes")
	if err != nil {
		return opts, invalid("URL", err)
	}
	if text := values.Get("max_bytes"); text != "" {
		if opts.MaxBytes, err = parseBytes(text); err != nil {
			return opts, invalid("URL", fmt.Errorf("max_bytes: %w", err))
		}
	}
	if _, err = memstore.New(opts); err != nil { // checks the maximum
		return opts, invalid("URL", fmt.Errorf("max_bytes: %w", err))
	}
	return opts, nil
}

// parseBytes parses a number of bytes: an integer, optionally with a unit, such as 256MiB.
func parseBytes(text string) (int64, error) {
	digits := strings.TrimRight(text, "BKMGTi")
	shift, known := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || !known || n < 1 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("must be a positive number of bytes, such as 268435456 or 256MiB (KiB, MiB, GiB, TiB), not %q", text)
	}
	return int64(n << shift), nil
}
