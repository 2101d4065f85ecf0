package testkit

import "github.com/slidegate/slidegate/internal/testkit"

// SmallDisk returns the folder of a new file system in memory of a size such as "8m", for a test that fills a disk.
var SmallDisk = testkit.SmallDisk
