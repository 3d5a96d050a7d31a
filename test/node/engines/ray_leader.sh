# Started in the leader: the head of a Ray cluster, and beside it the program that answers.
ray start --head --port=6379 --num-cpus=1 --object-store-memory=80000000 --include-dashboard=false \
    --disable-usage-stats
exec python /programs/ray_nodes.py
