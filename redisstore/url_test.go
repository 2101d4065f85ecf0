package redisstore

import (
	"fmt"
	"testing"
	"time"
)

// TestParseURL checks what is parsed from a URL: hosts, user, password, database, master, TLS.
func TestParseURL(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h":                     "[h:6379] : 0 - -",
		"redis://":                      "[localhost:6379] : 0 - -",
		"REDIS://h:1/2":                 "[h:1] : 2 - -",
		"redis://u:p%40%2f@[::1]:7/":    "[[::1]:7] u:p@/ 0 - -",
		"redis://::1":                   "[[::1]:6379] : 0 - -",
		"redis://:p@w@h":                "[h:6379] :p@w 0 - -", // the last @ ends the password
		"rediss://h":                    "[h:6379] : 0 - h",
		"rediss://h?server_name=x":      "[h:6379] : 0 - x",
		"redis+cluster://u:p@a:1,b,c:3": "[a:1 b:6379 c:3] u:p 0 - -",
		"rediss+cluster://a,b":          "[a:6379 b:6379] : 0 - ",
		"redis+sentinel://a,b:5/mine":   "[a:26379 b:5] : 0 mine -",
		"redis+sentinel://a/mine/4?sentinel_password=s": "[a:26379] : 4 mine -",
	} {
		target, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: got error %v", url, err)
			continue
		}
		c := &target.client
		master, name := c.Sentinel.MasterSet, "-"
		if master == "" {
			master = "-"
		}
		if c.TLSConfig != nil {
			name = c.TLSConfig.ServerName
		}
		got := fmt.Sprintf("%v %s:%s %d %s %s", c.InitAddress, c.Username, c.Password, c.SelectDB, master, name)
		if got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
		if c.Dialer.Timeout != time.Second || !c.DisableRetry || !c.DisableCache || c.ClientName != "slidegate" {
			t.Errorf("%s: got the client's settings %+v, want a dial timeout of 1s, no retries, no cache, the name slidegate", url, c)
		}
	}
}
