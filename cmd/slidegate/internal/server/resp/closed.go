package resp

import (
	"errors"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
)

// errClosed is the error if the store did not answer and the failure mode is closed. Nothing was counted, so it must
// not look like an exhausted quota.
var errClosed = errors.New("the store could not answer, and the failure mode is closed; try again later")

// isClosed reports whether a verdict is such a denial.
func isClosed(v *gate.Verdict) bool { return v.Decision.Flags.FallbackClosed() && !v.Shadow }
