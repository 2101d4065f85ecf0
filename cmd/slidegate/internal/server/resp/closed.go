package resp

import (
	"errors"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// errClosed is the answer where the store could not answer, and the failure mode closed refuses. Nobody counted, so it must not look
// like a quota that was used up.
var errClosed = errors.New("the store could not answer, and the failure mode closed refuses; ask again later")

// isClosed reports whether a verdict is such a refusal.
func isClosed(v *gate.Verdict) bool { return v.Decision.Flags.FallbackClosed() && !v.Shadow }
