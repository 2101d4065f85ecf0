package grpclimit

import "context"

// KeyOf returns the key of a call.
func KeyOf(key Key, ctx context.Context, method string) (string, error) {
	return key.Of(keyCall{ctx, method})
}
