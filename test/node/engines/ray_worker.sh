# Started in every worker: a node of the leader's Ray cluster, as soon as there is one.
until (: > "/dev/tcp/$LWS_LEADER_ADDRESS/6379") 2> /dev/null; do sleep 0.5; done
exec ray start --address="$LWS_LEADER_ADDRESS:6379" --num-cpus=1 --object-store-memory=80000000 \
    --disable-usage-stats --block
