package gate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/slidegate/slidegate"
)

// Signer signs what Reserve hands out. A reservation comes back from a client, which could otherwise have written it itself, and give
// back or charge what was never reserved. It must be safe for concurrent use.
type Signer interface {
	// Sign returns a signature of text, without dots.
	Sign(ctx context.Context, text []byte) string
	// Verify reports whether a signature is one of text.
	Verify(ctx context.Context, text []byte, signature string) bool
}

// signedBy separates the ID of a reservation from its signature, and says which format was signed.
const signedBy = ".v1."

// sign appends a signature to the ID of a reservation, unless it is the zero value or nobody signs.
func (g *Gate) sign(ctx context.Context, policy string, r *slidegate.Reservation) {
	if g.opts.Signer != nil && r.ID != "" {
		r.ID += signedBy + g.opts.Signer.Sign(ctx, signedText(policy, *r))
	}
}

// verify refuses a reservation that Reserve did not hand out for the policy, or that was changed since.
func (g *Gate) verify(ctx context.Context, policy string, r slidegate.Reservation) error {
	if g.opts.Signer == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // settling finishes after the client has gone
	id, signature, _ := strings.Cut(r.ID, signedBy)
	r.ID = id
	if id == "" || signature == "" || !g.opts.Signer.Verify(ctx, signedText(policy, r), signature) {
		return fmt.Errorf("gate: %w: it was not made by this service for the policy %s, or was changed since; "+
			"send what reserving answered, as it was", slidegate.ErrReservation, policy)
	}
	return nil
}

// signedText is what is signed: the name of the policy and all that is in the reservation.
func signedText(policy string, r slidegate.Reservation) []byte {
	if r.Charges == nil {
		r.Charges = []slidegate.ReservedCharge{} // which not every reader of JSON tells from none
	}
	content, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts, bytes and numbers
	}
	text := append([]byte(nil), "slidegate reservation"+signedBy...)
	text = binary.AppendUvarint(text, uint64(len(policy)))
	text = append(text, policy...)
	return append(text, content...)
}
