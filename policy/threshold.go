package policy

import "github.com/slidegate/slidegate"

// Threshold is a part of a limit at which the service logs and counts a key: of the quota or, for a token bucket, of the burst.
type Threshold struct {
	Limit   slidegate.Limit // one of the policy's limits, or of its overrides or plans
	Percent int             // 1 to 100
}
