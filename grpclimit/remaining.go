package grpclimit

import (
	"net/http"

	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
)

// remaining returns the metadata with what is left after a decision, like the RateLimit header fields of
// draft-ietf-httpapi-ratelimit-headers-11, or nil if no limit decided or SendRemaining is off.
func (d *decider) remaining(v *policy.Decision) metadata.MD {
	if d.items == nil || v.By != policy.ByLimits || v.Shadow || v.Ended || v.Mistake {
		return nil
	}
	h := http.Header{}
	reply.IETF.Write(h, d.items.Append(nil, v.Limits), &v.Decision, !v.Allowed)
	if h["Ratelimit"] == nil {
		return nil
	}
	return metadata.MD{"ratelimit": h["Ratelimit"], "ratelimit-policy": h["Ratelimit-Policy"]}
}

// checkNames returns an error if the name of a limit is not valid in metadata.
func checkNames(limits []slidegate.Limit) (any, error) {
	for _, limit := range limits {
		if _, err := reply.NewItem(limit); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
