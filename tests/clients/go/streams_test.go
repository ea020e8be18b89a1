package clients

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAStreamKeepsItsEntriesInTheirOrder(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		add := func(id string, values ...interface{}) (string, error) {
			return client.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: id, Values: values}).Result()
		}
		same(t, "XADD", "1-1")(add("1-1", "a", 1, "b", ""))
		same(t, "XADD", "1-2")(add("1-*", "c", "x\x00y"))
		if _, err := add("1-2", "a", 1); err == nil || !strings.HasPrefix(err.Error(), "ERR The ID specified in XADD is equal or smaller") {
			t.Errorf("XADD of an old ID: %v", err)
		}
		wanted := []redis.XMessage{{ID: "1-1", Values: map[string]interface{}{"a": "1", "b": ""}}, {ID: "1-2", Values: map[string]interface{}{"c": "x\x00y"}}}
		same(t, "XRANGE", wanted)(client.XRange(ctx, "s", "-", "+").Result())
		same(t, "XREVRANGE", wanted[1:])(client.XRevRangeN(ctx, "s", "+", "-", 1).Result())
		same(t, "XREAD", []redis.XStream{{Stream: "s", Messages: wanted[1:]}})(client.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "1-1"}, Block: -1}).Result())
		same(t, "XDEL", int64(1))(client.XDel(ctx, "s", "1-1", "7").Result())
		told, err := client.XInfoStream(ctx, "s").Result()
		if err != nil || told.Length != 1 || told.EntriesAdded != 2 || told.MaxDeletedEntryID != "1-1" || !reflect.DeepEqual(told.FirstEntry, wanted[1]) {
			t.Errorf("XINFO STREAM: %+v (error %v)", told, err)
		}
		same(t, "XTRIM", int64(1))(client.XTrimMinID(ctx, "s", "2").Result())
		same(t, "XLEN", int64(0))(client.XLen(ctx, "s").Result())
		if err := client.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: 20 * time.Millisecond}).Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("XREAD without anything new: %v", err)
		}
	})
}

func TestConsumersOfAGroupShareItsEntries(t *testing.T) {
	both(t, func(t *testing.T, ctx context.Context, client *redis.Client) {
		same(t, "XGROUP CREATE", "OK")(client.XGroupCreateMkStream(ctx, "s", "g", "$").Result())
		const entries, consumers = 1000, 4
		var lock sync.Mutex
		seen := map[string]int{}
		var working sync.WaitGroup
		for number := 0; number < consumers; number++ {
			working.Add(1)
			go func() {
				defer working.Done()
				for {
					request := redis.XReadGroupArgs{Group: "g", Consumer: fmt.Sprint("c", number), Streams: []string{"s", ">"}, Count: 9, Block: 10 * time.Second}
					streams, err := client.XReadGroup(ctx, &request).Result()
					if err != nil {
						t.Errorf("XREADGROUP: %v", err)
						return
					}
					for _, message := range streams[0].Messages {
						lock.Lock()
						seen[message.Values["n"].(string)]++
						lock.Unlock()
						// Who reads the end leaves it unacknowledged, and adds another for the next.
						if message.Values["n"] == "end" {
							client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"n", "end"}})
							return
						}
						client.XAck(ctx, "s", "g", message.ID)
					}
				}
			}()
		}
		for number := 0; number < entries; number++ {
			client.XAdd(ctx, &redis.XAddArgs{Stream: "s", MaxLen: 10_000, Approx: true, Values: []interface{}{"n", number}})
		}
		client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"n", "end"}})
		working.Wait()
		for number := 0; number < entries; number++ {
			if times := seen[fmt.Sprint(number)]; times != 1 {
				t.Errorf("entry %d came %d times", number, times)
			}
		}
		left, err := client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 100}).Result()
		if err != nil || len(left) < consumers {
			t.Fatalf("XPENDING: %v (error %v)", left, err)
		}
		claimed, next, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g", Consumer: "heir", Start: "0", Count: 2}).Result()
		if err != nil || len(claimed) != 2 || next != left[2].ID || claimed[0].Values["n"] != "end" {
			t.Errorf("XAUTOCLAIM: %v, %s (error %v)", claimed, next, err)
		}
		same(t, "XACK", int64(2))(client.XAck(ctx, "s", "g", claimed[0].ID, claimed[1].ID).Result())
		groups, err := client.XInfoGroups(ctx, "s").Result()
		if err != nil || groups[0].Pending != int64(len(left)-2) || groups[0].Consumers != consumers+1 {
			t.Errorf("XINFO GROUPS: %v (error %v)", groups, err)
		}
		full, err := client.XInfoStreamFull(ctx, "s", 1).Result()
		if err != nil || len(full.Groups) != 1 || len(full.Groups[0].Consumers) != consumers+1 {
			t.Errorf("XINFO STREAM FULL: %+v (error %v)", full, err)
		}
		same(t, "XGROUP DESTROY", int64(1))(client.XGroupDestroy(ctx, "s", "g").Result())
	})
}
