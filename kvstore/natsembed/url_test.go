package natsembed

import "testing"

// TestReplicas: by default, up to three processes of an embedded cluster keep the bucket.
func TestReplicas(t *testing.T) {
	for url, want := range map[string]string{
		"nats:embedded?dir=d": "1",
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:1,localhost:2":            "2",
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:2,localhost:3":            "3",
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:1,a:2,b:3,c:4,d:5":        "3",
		"nats:embedded?dir=d&route=0.0.0.0:1&cluster=a:1,b:1,c:1&secret=x":                 "3",
		"nats:embedded?dir=d&route=:1&cluster=a:1,b:1&secret=x":                            "2",
		"nats:embedded?dir=d&route=localhost:1&cluster=localhost:1,a:2,b:3,c:4&replicas=1": "1",
	} {
		_, bucket, err := parseURL(url)
		if err != nil || bucket.Get("replicas") != want {
			t.Errorf("%s: got %v, %v, want %s replicas", url, bucket, err, want)
		}
	}
}
