pub mod acme;
